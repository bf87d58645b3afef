--- Guards the turns of an agent that lives in Neovim, 0.7 or newer.
---
--- Starts `turnguard serve` as an LSP client that is attached to no buffer, tells it each batch of tool calls before any
--- of them runs, and shows what it says: a halt and a warning by `vim.notify`, the count of calls in the statusline. It
--- never keeps an agent waiting for long: without an answer the calls run, and the person is told once.

local M = {}

local PROTOCOL_VERSION = 1
local END_MS = 2000 -- a daemon that takes longer to end is killed

local options = {
  cmd = { 'turnguard', 'serve' },
  -- An empty table would be an empty array in JSON.
  settings = vim.empty_dict(),
  -- docs/protocol.md: if a verdict does not come within 250 ms, let the batch run and tell the person once.
  patience_ms = 250,
}
local client -- the client that has shaken hands
local process -- the one that was started last: `id` of its client, `pid`
local starts = 0 -- so that a daemon that was started anew meanwhile is not taken
local sessions = {} -- what each is opened with, also at the next daemon
local opened = {} -- those that this daemon knows
local latest -- the status that changed last
local silent = false -- an answer is late: do not wait for the next ones either
local told = false -- the person knows that calls run without the guard

local function say(message, level)
  vim.notify('turnguard: ' .. message, vim.log.levels[level], { title = 'turnguard' })
end

local function unguarded(why)
  if not told then
    told = true
    say(why .. '. Calls run without the guard.', 'WARN')
  end
end

-- The functions of a client are methods since 0.11.
local function tell(whom, name, ...)
  if vim.fn.has('nvim-0.11') == 1 then
    return whom[name](whom, ...)
  end
  return whom[name](...)
end

--- Sends a request. Answers arrive in the order of the requests, so only those that matter have to be waited for.
local function request(method, params, on_answer)
  tell(client, 'request', method, params, function(err, result)
    silent, told = false, false
    on_answer(err, result)
  end, 0)
end

--- The result; nil without an answer in time. Throws the daemon's error.
local function ask(method, params)
  if not client then
    unguarded('the daemon is not running, see :TurnguardRestart')
    return nil
  end
  local answer
  request(method, params, function(err, result)
    answer = { err = err, result = result }
  end)
  if not silent then
    vim.wait(options.patience_ms, function() return answer ~= nil or client == nil end, 2)
  end
  if not answer then
    silent = true
    unguarded('the daemon does not answer')
    return nil
  end
  if answer.err then
    error(('%s (%d)'):format(answer.err.message, answer.err.code), 0)
  end
  return answer.result
end

--- Whether what has started is a daemon for us.
local function fits(result)
  local ours = vim.tbl_get(result.capabilities, 'experimental', 'turnguard') or {}
  if ours.protocolVersion ~= PROTOCOL_VERSION then
    say(('%s speaks protocol %s, this file speaks %d: update the older of the two'):format(
      options.cmd[1], ours.protocolVersion or 'of something else', PROTOCOL_VERSION), 'ERROR')
    return false
  end
  return true
end

local function children()
  return vim.api.nvim_get_proc_children(vim.fn.getpid())
end

--- What `start` has started. A client does not say which process it has, but that is the child that is new.
local function started(start)
  local before = children()
  local id = start()
  local new = vim.tbl_filter(function(pid) return not vim.tbl_contains(before, pid) end, children())
  return id and { id = id, pid = new[1] }
end

--- Starts the daemon, or starts it anew; its sessions begin anew too.
--- `new_options`: `cmd`, the command line; `settings`, those of docs/settings.md that the person set, and no others;
--- `patience_ms`, how long `record` may keep the agent waiting.
--- `on_ready`: called when it answers.
function M.start(new_options, on_ready)
  options = vim.tbl_extend('force', options, new_options or {})
  if vim.fn.executable(options.cmd[1]) == 0 then
    say(options.cmd[1] .. ' was not found. Install it with pip, or give its path as cmd.', 'ERROR')
    return
  end
  M.stop()
  local start = starts
  local config = {
    name = 'turnguard',
    cmd = options.cmd,
    init_options = { settings = options.settings },
    on_init = function(starting, result)
      if start ~= starts then
        return tell(starting, 'stop')
      elseif not fits(result) then
        return tell(starting, 'stop', true)
      end
      client, opened, silent, told = starting, {}, false, false
      vim.schedule(on_ready or function() end)
    end,
    on_exit = vim.schedule_wrap(function(code, signal, id)
      if client and client.id == id and vim.v.exiting == vim.NIL then
        client, latest = nil, nil
        say(('the daemon ended with code %d, signal %d; :TurnguardRestart starts it again'):format(code, signal), 'WARN')
      end
    end),
    handlers = {
      ['turnguard/didChangeSession'] = function(_, status)
        latest = status
        vim.cmd('redrawstatus!')
      end,
      -- The verdict says the same.
      ['turnguard/didDetectLoop'] = function() end,
    },
  }
  if vim.fn.has('nvim-0.11') == 1 then
    local detached = { attach = false, reuse_client = function() return false end }
    process = started(function() return vim.lsp.start(config, detached) end)
  else
    process = started(function() return vim.lsp.start_client(config) end)
  end
end

--- Ends the daemon, by force if it does not listen.
function M.stop()
  starts = starts + 1
  if process then
    local stopping = process
    client, process, latest = nil, nil, nil
    vim.lsp.stop_client(stopping.id)
    vim.defer_fn(function()
      if stopping.pid and vim.lsp.get_client_by_id(stopping.id) then
        vim.loop.kill(stopping.pid, 'sigkill')
      end
    end, END_MS)
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
  sessions[session] = nil
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
  local choices = { { 'Stop' }, { 'Continue once', 'continueOnce' }, { 'Raise the cap', 'raiseCap' } }
  vim.ui.select(choices, {
    prompt = 'turnguard halted the turn',
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
    on_decision(action ~= nil)
  end)
end

--- For the statusline: `%{v:lua.require'turnguard'.statusline()}`.
function M.statusline()
  if not client then
    return 'turnguard off'
  end
  if not latest then
    return 'turnguard'
  end
  -- The adaptive cap is not a hard one.
  local cap = latest.cap.value and (latest.cap.explicit and '/' or '/~') .. latest.cap.value or ''
  local state = latest.state == 'running' and '' or ' ' .. latest.state
  return ('turnguard %d%s%s'):format(latest.totals.toolCalls, cap, state)
end

vim.api.nvim_create_user_command('TurnguardRestart', function() M.start() end, { desc = 'Start the turnguard daemon anew; its sessions begin anew too' })

return M
