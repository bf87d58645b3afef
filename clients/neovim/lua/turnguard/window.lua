--- Words for the person, in floating windows.
---
--- In the message area what is longer than a line waits for ENTER, in the middle of whatever the person is doing. Here
--- neither a message nor a question takes a key or the focus: what is typed in passing goes where it was meant to go, and
--- answers nothing. Only who goes into a question by `M.answer` answers it.

local M = {}

local COLUMNS = 72
local NOTICE_MS = 5000 -- a message can be read at least so long
local KEPT = 100 -- messages

local GROUPS = {
  [vim.log.levels.ERROR] = 'DiagnosticError',
  [vim.log.levels.WARN] = 'DiagnosticWarn',
}

local messages = {} -- the latest last
local notice -- the window of the latest message, while it is shown
local questions = {} -- those without an answer, the oldest first; that one is shown

local function columns()
  return math.max(10, math.min(COLUMNS, vim.o.columns - 4))
end

--- The lines of a text, none wider than a window.
local function wrapped(text)
  local lines, most = {}, columns()
  for _, paragraph in ipairs(vim.split(text, '\n', { plain = true })) do
    local line = ''
    for word in paragraph:gmatch('%S+') do
      local longer = line == '' and word or line .. ' ' .. word
      if line ~= '' and vim.fn.strdisplaywidth(longer) > most then
        table.insert(lines, line)
        longer = word
      end
      while vim.fn.strdisplaywidth(longer) > most do -- a word that is wider than a line
        table.insert(lines, vim.fn.strcharpart(longer, 0, math.floor(most / 2)))
        longer = vim.fn.strcharpart(longer, math.floor(most / 2))
      end
      line = longer
    end
    table.insert(lines, line)
  end
  return lines
end

local function scratch(lines)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = false
  return buffer
end

--- Opens a float on a buffer; nil, and the buffer is gone, while the person is in the command-line window, where none
--- can be opened.
local function float(buffer, enter, group, config)
  local opened, window = pcall(vim.api.nvim_open_win, buffer, enter, vim.tbl_extend('error', {
    relative = 'editor',
    width = columns(),
    height = math.min(vim.api.nvim_buf_line_count(buffer), math.max(1, vim.o.lines - 4)),
    style = 'minimal',
    border = 'single',
  }, config))
  if opened then
    vim.wo[window].winhighlight = 'FloatBorder:' .. (group or 'FloatBorder')
    return window
  end
  vim.api.nvim_buf_delete(buffer, { force = true })
end

local function close(window)
  if window and vim.api.nvim_win_is_valid(window) then
    vim.api.nvim_win_close(window, true)
  end
end

--- Shows a message in a corner, as `vim.notify` would: until the person does something, but NOTICE_MS at least.
function M.notify(message, level)
  table.insert(messages, message)
  if #messages > KEPT then
    table.remove(messages, 1)
  end
  vim.schedule(function()
    close(notice)
    local shown = float(scratch(wrapped(message)), false, GROUPS[level], {
      anchor = 'NE', row = 0, col = vim.o.columns, focusable = false,
    })
    notice = shown
    vim.defer_fn(function()
      if shown and vim.api.nvim_win_is_valid(shown) then
        vim.api.nvim_create_autocmd({ 'CursorMoved', 'CursorMovedI', 'CmdlineEnter' }, {
          once = true,
          callback = vim.schedule_wrap(function() close(shown) end),
        })
      end
    end, NOTICE_MS)
  end)
end

--- Opens the messages so far in a window, the latest below.
function M.messages()
  local lines = {}
  for _, message in ipairs(messages) do
    vim.list_extend(lines, wrapped(message))
    table.insert(lines, '')
  end
  vim.cmd('botright new')
  vim.api.nvim_win_set_buf(0, scratch(lines))
  vim.cmd('normal! G')
end

--- The oldest question in a window, in that half of the screen in which the person does not type. `enter`: the person
--- wants to answer it.
local function show(enter)
  local question = questions[1]
  if not question then
    return
  end
  if vim.api.nvim_get_current_win() ~= question.window then
    local row = vim.fn.win_screenpos(0)[1] + vim.fn.winline()
    question.at_top = row > vim.o.lines / 2
  end
  close(question.window)
  local lines = { question.prompt, '' }
  if question.message then
    vim.list_extend(lines, wrapped(question.message))
    table.insert(lines, '')
  end
  local before = #lines
  for _, choice in ipairs(question.choices) do
    table.insert(lines, '  ' .. question.format_item(choice))
  end
  table.insert(lines, '')
  vim.list_extend(lines, wrapped(':TurnguardAnswer goes here; then ENTER takes, q closes, ESC leaves.'))

  local buffer = scratch(lines)
  local window = float(buffer, enter, GROUPS[vim.log.levels.ERROR], {
    anchor = question.at_top and 'NE' or 'SE',
    row = question.at_top and 0 or vim.o.lines - vim.o.cmdheight - 1,
    col = vim.o.columns,
    -- So no key of CTRL-W leads here, which could be one typed in passing.
    focusable = false,
  })
  if not window then
    vim.api.nvim_create_autocmd('CmdwinLeave', { once = true, callback = vim.schedule_wrap(function() show(false) end) })
    return
  end
  question.window = window
  close(notice)
  vim.wo[window].cursorline = enter
  vim.api.nvim_win_set_cursor(window, { before + 1, 0 })
  if vim.api.nvim_get_mode().mode == 'c' then
    vim.cmd('redraw') -- while a command is typed nothing else is drawn
  end

  local function answer(choice)
    table.remove(questions, 1)
    close(window)
    show(false)
    vim.schedule(function() question.on_choice(choice) end)
  end
  vim.keymap.set('n', '<CR>', function()
    local choice = question.choices[vim.api.nvim_win_get_cursor(window)[1] - before]
    if choice then
      answer(choice)
    end
  end, { buffer = buffer })
  vim.keymap.set('n', 'q', function() answer(nil) end, { buffer = buffer, nowait = true })
  -- In another window, since `CTRL-W p` would lead back into this one.
  vim.keymap.set('n', '<Esc>', function() show(false) end, { buffer = buffer, nowait = true })
end

--- Asks as `vim.ui.select` would, shows `opts.message` above the choices, and waits for `M.answer`. A window that the
--- person closed by `:only` and the like is no answer.
function M.select(choices, opts, on_choice)
  table.insert(questions, {
    choices = choices,
    prompt = opts.prompt,
    message = opts.message,
    format_item = opts.format_item,
    on_choice = on_choice,
  })
  if #questions == 1 then
    vim.schedule(function() show(false) end)
  end
end

--- Goes into the oldest question, and shows it again if need be; false if there is none.
function M.answer()
  if #questions == 0 then
    return false
  end
  show(true)
  vim.cmd('stopinsert')
  return true
end

return M
