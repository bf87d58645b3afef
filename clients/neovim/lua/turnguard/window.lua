--- Words for the person, in floating windows.
---
--- In the message area what is longer than a line waits for ENTER, in the middle of whatever the person is doing. Here a
--- message takes no key and no focus, and only a question does.

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

--- The lines of a text, none wider than `columns`.
local function wrapped(text, columns)
  local lines = {}
  for _, paragraph in ipairs(vim.split(text, '\n', { plain = true })) do
    local line = ''
    for word in paragraph:gmatch('%S+') do
      local longer = line == '' and word or line .. ' ' .. word
      if line ~= '' and vim.fn.strdisplaywidth(longer) > columns then
        table.insert(lines, line)
        longer = word
      end
      while vim.fn.strdisplaywidth(longer) > columns do -- a word that is wider than a line
        table.insert(lines, vim.fn.strcharpart(longer, 0, math.floor(columns / 2)))
        longer = vim.fn.strcharpart(longer, math.floor(columns / 2))
      end
      line = longer
    end
    table.insert(lines, line)
  end
  return lines
end

local function columns()
  return math.max(10, math.min(COLUMNS, vim.o.columns - 4))
end

local function scratch(lines)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = false
  return buffer
end

--- Opens a float with those lines; nil while the person is in the command-line window, where none can be opened.
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
    local group = GROUPS[level]
    local shown = float(scratch(wrapped(message, columns())), false, group, {
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
    vim.list_extend(lines, wrapped(message, columns()))
    table.insert(lines, '')
  end
  vim.cmd('botright new')
  vim.api.nvim_win_set_buf(0, scratch(lines))
  vim.cmd('normal! G')
end

--- Asks as `vim.ui.select` would, and shows `opts.message` above the choices. Closing it is an answer, too: nil.
function M.select(choices, opts, on_choice)
  local lines = { opts.prompt, '' }
  if opts.message then
    vim.list_extend(lines, wrapped(opts.message, columns()))
    table.insert(lines, '')
  end
  local before = #lines
  for _, choice in ipairs(choices) do
    table.insert(lines, '  ' .. opts.format_item(choice))
  end
  vim.list_extend(lines, { '', 'ENTER takes the line, q closes.' })

  local function open()
    local buffer = scratch(lines)
    local window = float(buffer, true, GROUPS[vim.log.levels.ERROR], {
      row = math.max(0, math.floor((vim.o.lines - #lines) / 2) - 1),
      col = math.floor((vim.o.columns - columns()) / 2),
    })
    if not window then
      return vim.api.nvim_create_autocmd('CmdwinLeave', { once = true, callback = vim.schedule_wrap(open) })
    end
    vim.cmd('stopinsert')
    close(notice)
    vim.wo[window].cursorline = true
    vim.api.nvim_win_set_cursor(window, { before + 1, 0 })

    local taken
    local function take()
      taken = choices[vim.api.nvim_win_get_cursor(window)[1] - before]
      if taken then
        close(window)
      end
    end
    vim.keymap.set('n', '<CR>', take, { buffer = buffer })
    for _, key in ipairs({ 'q', '<Esc>' }) do
      vim.keymap.set('n', key, function() close(window) end, { buffer = buffer, nowait = true })
    end
    vim.api.nvim_create_autocmd('BufWipeout', {
      buffer = buffer,
      once = true,
      callback = vim.schedule_wrap(function() on_choice(taken) end),
    })
  end
  vim.schedule(open)
end

return M
