--- Guards the turns of an agent that lives in Neovim, 0.7 or newer.
---
--- Starts `turnguard serve`, tells it each batch of tool calls before any of them runs, and shows what it says: a warning
--- and a halt in a floating window, the count of calls in the statusline. It never keeps an agent waiting for long:
--- without an answer the calls run, and the person is told once. It never takes a key from what the person types.

local rpc = require('turnguard.rpc')
local window = require('turnguard.window')

local M = {}

local PROTOCOL_VERSION = 1
local CAP = 'turn_tool_call_cap' -- the `loopType` of a cap that halted
local END_MS = 2000 -- a daemon that takes longer to end is killed

local options = {
  cmd = { 'turnguard', 'serve' },
  -- An empty table would be an empty array in JSON.
  settings = vim.empty_dict(),
  -- docs/protocol.md: if a verdict does not come within 250 ms, let the batch run and tell the person once.
  patience_ms = 250,
  start_ms = 10000,
  -- Called as `vim.notify` and `vim.ui.select` are, which wait for ENTER where nobody replaced them.
  notify = window.notify,
  select = window.select,
}
local process -- what was started last
local client -- the same, when it has shaken hands
local sessions = {} -- what each is opened with, also at the next daemon
local opened = {} -- those that this daemon knows
local over = {} -- those whose turn has ended
local latest -- the status that changed last
local silent = false -- an answer is late: do not wait for the next ones either
local told = false -- the person knows that calls run without the guard

local function say(message, level)
  options.notify('turnguard: ' .. message, vim.log.levels[level], { title = 'turnguard' })
end

local function unguarded(why)
  if not told then
    told = true
    say(why .. '. Calls run without the guard.', 'WARN')
  end
end

local function redraw()
  vim.cmd('redrawstatus!')
end

local function set_silent(is_silent)
  if silent ~= is_silent then
    silent = is_silent
    redraw()
  end
end

--- Sends a request. Answers arrive in the order of the requests, so only those that matter have to be waited for.
local function request(method, params, on_answer)
  client.request(method, params, function(err, result)
    told = false
    set_silent(false)
    on_answer(err, result)
  end)
end

--- The result; nil without an answer in time. Throws the daemon's error.
local function ask(method, params)
  if not client then
    return unguarded(process and 'the daemon is still starting'
      or 'the daemon is not running; :TurnguardRestart starts it')
  end
  local answer
  request(method, params, function(err, result)
    answer = { err = err, result = result }
  end)
  if not silent then
    vim.wait(options.patience_ms, function() return answer ~= nil or client == nil end, 2)
  end
  if not answer then
    set_silent(true)
    return unguarded('the daemon does not answer')
  end
  if answer.err then
    error(('%s (%d)'):format(answer.err.message, answer.err.code), 0)
  end
  return answer.result
end

--- What speaks against a daemon that answered `initialize` so, or nil.
local function misfit(err, result)
  if err then
    return err.message
  end
  local version = vim.tbl_get(result or {}, 'capabilities', 'experimental', 'turnguard', 'protocolVersion')
  if not version then
    return table.concat(options.cmd, ' ') .. ' is no daemon of turnguard'
  elseif version ~= PROTOCOL_VERSION then
    return ('%s speaks protocol %s, this plugin speaks %d: update the older of the two'):format(
      options.cmd[1], version, PROTOCOL_VERSION)
  end
end

local function heard(method, params)
  if method == 'turnguard/didChangeSession' then
    latest = params
    redraw()
  elseif method == 'window/showMessage' then
    say(params.message, 'WARN')
  end
  -- What `turnguard/didDetectLoop` says the verdict says too.
end

--- Starts the daemon, or starts it anew; its sessions begin anew too.
--- `new_options`: `cmd`, the command line; `settings`, those of docs/settings.md that the person set, and no others;
--- `patience_ms`, how long `record` may keep the agent waiting; `start_ms`, how long the daemon may take to start;
--- `notify` and `select`, in place of our windows.
--- `on_ready`: called when it answers.
function M.start(new_options, on_ready)
  options = vim.tbl_extend('force', options, new_options or {})
  local program = options.cmd[1]
  if vim.fn.executable(program) == 0 then
    say(program .. ' was not found. Give the path of the program in your clone of turnguard: '
      .. "require('turnguard').start({ cmd = { '/path/to/turnguard/.venv/bin/turnguard', 'serve' } })", 'ERROR')
    return
  end
  M.stop()
  local starting
  local function refuse(why)
    process = nil
    starting.kill()
    redraw()
    say(why, 'ERROR')
  end
  starting = rpc.start(options.cmd, function(method, params)
    if starting == client then
      heard(method, params)
    end
  end, function(code, words)
    if starting == process and vim.v.exiting == vim.NIL then
      process, client, latest = nil, nil, nil
      redraw()
      local said = words == '' and '' or ' Its last line: ' .. words
      say(('the daemon ended with code %d. :TurnguardRestart starts it again.%s'):format(code, said), 'WARN')
    end
  end)
  process = starting
  redraw()
  starting.request('initialize', {
    processId = vim.fn.getpid(),
    rootUri = vim.NIL,
    capabilities = vim.empty_dict(),
    initializationOptions = { settings = options.settings },
  }, function(err, result)
    if starting ~= process then
      return
    end
    local why = misfit(err, result)
    if why then
      return refuse(why)
    end
    starting.notify('initialized', vim.empty_dict())
    client, opened, silent, told = starting, {}, false, false
    redraw()
    vim.schedule(on_ready or function() end)
  end)
  vim.defer_fn(function()
    if starting == process and starting ~= client then
      refuse(('%s has not answered for %d s, so it was ended'):format(table.concat(options.cmd, ' '), options.start_ms / 1000))
    end
  end, options.start_ms)
end

--- Ends the daemon, by force if it does not listen.
function M.stop()
  if process then
    local stopping = process
    process, client, latest = nil, nil, nil
    stopping.request('shutdown', nil, function() end)
    stopping.notify('exit')
    stopping.end_input()
    vim.defer_fn(stopping.kill, END_MS)
    redraw()
  end
end

local function open(session)
  opened[session] = true
  request('turnguard/openSession', sessions[session], function(err)
    if err then
      say(err.message, 'ERROR')
    end
  end)
end

--- Opens a session, one for each conversation. `params`: those of `turnguard/openSession`.
--- `record` opens one by itself if need be; this is for those that need settings of their own.
function M.open(session, params)
  sessions[session] = vim.tbl_extend('force', { sessionId = session, cwd = vim.fn.getcwd() }, params or {})
  if client then
    open(session)
  end
end

--- Closes a session, at the end of its conversation.
function M.close(session)
  sessions[session], over[session] = nil, nil
  if client and opened[session] then
    opened[session] = nil
    request('turnguard/closeSession', { sessionId = session }, function() end)
  end
end

--- Tells the events of docs/protocol.md, and shows what is new in the verdict.
--- Returns the verdict, or nil when there is no answer: then all calls may run.
function M.record(session, events)
  if not sessions[session] then
    M.open(session)
  elseif client and not opened[session] then
    open(session)
  end
  for _, event in ipairs(events) do
    if event.type == 'turnEnded' then
      over[session] = true
    elseif event.type == 'turnStarted' or event.type == 'toolCalls' then
      over[session] = nil
    end
  end
  local verdict = ask('turnguard/record', { sessionId = session, events = events })
  local finding = verdict and verdict.findings[1]
  if finding and finding.fresh and verdict.userMessage then
    say(verdict.userMessage, verdict.action == 'halt' and 'ERROR' or 'WARN')
  end
  return verdict
end

--- Those of a batch that may run; `verdict` is what `record` returned for it.
function M.admitted(verdict, calls)
  if not verdict then
    return calls
  end
  return vim.tbl_map(function(index) return calls[index + 1] end, verdict.admitted)
end

--- Asks the person what becomes of a turn that was halted, and calls `on_decision` with true if it goes on: then the
--- batch has to be recorded again. Who closes the question has stopped the turn. Where the daemon does not do what the
--- person wants the turn goes on all the same: it is gone, and its halt with it, or it will say so again.
function M.ask(session, verdict, on_decision)
  local choices = { { 'Stop' }, { 'Continue once', 'continueOnce' } }
  if vim.tbl_get(verdict, 'findings', 1, 'loopType') == CAP then
    table.insert(choices, { 'Raise the cap', 'raiseCap' })
  end
  options.select(choices, {
    prompt = 'turnguard halted the turn',
    message = verdict.userMessage,
    format_item = function(choice) return choice[1] end,
  }, function(choice)
    local action = choice and choice[2]
    local done, failure
    if action then
      done, failure = pcall(ask, 'turnguard/override', { sessionId = session, turnId = verdict.turnId, action = action })
    else
      done, failure = pcall(M.record, session, { { type = 'turnEnded', outcome = 'cancelled' } })
    end
    if not done then
      say(failure, 'WARN')
    end
    redraw()
    on_decision(action ~= nil)
  end)
end

--- For the statusline: `%{v:lua.require'turnguard'.statusline()}`.
function M.statusline()
  if not client then
    return process and 'turnguard starting' or 'turnguard off'
  elseif silent then
    return 'turnguard no answer'
  elseif not latest then
    return 'turnguard'
  end
  -- The adaptive cap is not a hard one.
  local cap = latest.cap.value and (latest.cap.explicit and '/' or '/~') .. latest.cap.value or ''
  local state = latest.state
  if state == 'halted' and over[latest.sessionId] then
    state = 'stopped' -- a halted turn that ends stays halted for the daemon
  end
  return ('turnguard %d%s%s'):format(latest.totals.toolCalls, cap, state == 'running' and '' or ' ' .. state)
end

vim.api.nvim_create_user_command('TurnguardRestart', function() M.start() end, {
  desc = 'Start the turnguard daemon anew; its sessions begin anew too',
})
vim.api.nvim_create_user_command('TurnguardAnswer', function()
  if not window.answer() then
    say('there is no question', 'INFO')
  end
end, {
  desc = 'Go to the question of turnguard',
})
vim.api.nvim_create_user_command('TurnguardMessages', window.messages, {
  desc = 'Show what turnguard has said',
})

return M
