-- What clients/neovim has to do, one case a run: test_neovim.py says which, by CASE.

local demo = vim.env.CASE_CLIENT .. '/demo.lua'
local real = vim.json.decode(vim.env.CASE_DAEMON)
local WAIT_MS = 20000

local told = {} -- what vim.notify showed
local printed = {}
local function capture()
  vim.notify = function(message, level)
    table.insert(told, { message = message, level = level })
  end
  print = function(line)
    table.insert(printed, line)
  end
end

local function until_(condition, what)
  assert(vim.wait(WAIT_MS, condition, 5), 'waited for ' .. what .. ', told: ' .. vim.inspect(told) .. ', statusline: ' .. require('turnguard').statusline() .. ', printed: ' .. vim.inspect(printed))
end

local function equal(actual, expected)
  assert(vim.deep_equal(actual, expected), 'expected ' .. vim.inspect(expected) .. ', got ' .. vim.inspect(actual))
end

local function has(text, part)
  assert(text:find(part, 1, true), vim.inspect(text) .. ' has no ' .. vim.inspect(part))
end

local function milliseconds(act)
  local begun = vim.loop.hrtime()
  act()
  return (vim.loop.hrtime() - begun) / 1e6
end

local function broken(way)
  local cmd = vim.json.decode(vim.env.CASE_BROKEN)
  table.insert(cmd, way)
  return cmd
end

local function started(turnguard, cmd, patience_ms)
  local ready = false
  -- The machine may be busy: only what is about waiting is told to be impatient.
  turnguard.start({ cmd = cmd, patience_ms = patience_ms or WAIT_MS }, function() ready = true end)
  until_(function() return ready end, 'the daemon')
end

local BATCH = { { name = 'read_file', args = { path = 'a' } } }
local function record(turnguard)
  return turnguard.record('s', { { type = 'toolCalls', calls = BATCH } })
end

local cases = {}

function cases.demo(turnguard)
  local answers = { 'Continue once', 'Raise the cap' } -- and then none: the question is closed
  vim.ui.select = function(choices, _, on_choice)
    local label = table.remove(answers, 1)
    on_choice(vim.tbl_filter(function(choice) return choice[1] == label end, choices)[1])
  end
  turnguard.start({ cmd = real, patience_ms = WAIT_MS })
  vim.cmd('luafile ' .. demo)
  until_(function() return printed[#printed] == 'turn: stopped' end, 'the end of the turn')
  equal(printed, { 'turn: 2 calls ran', 'turn: 2 calls ran', 'turn: 2 calls ran', 'turn: stopped' })
  for index, count in ipairs({ 4, 6, 8 }) do
    has(told[index].message, ('Stopped after %d tool calls'):format(count))
    equal(told[index].level, vim.log.levels.ERROR)
  end
  equal(#told, 3)
  until_(function() return turnguard.statusline() == 'turnguard 8/7 halted' end, 'the statusline')
end

function cases.statusline(turnguard)
  equal(turnguard.statusline(), 'turnguard off')
  started(turnguard, real)
  equal(turnguard.statusline(), 'turnguard')
  record(turnguard)
  until_(function() return turnguard.statusline() == 'turnguard 1/~100' end, 'a count')
  turnguard.stop()
  equal(turnguard.statusline(), 'turnguard off')
  equal(told, {})
end

function cases.settings(turnguard)
  turnguard.start({ cmd = real, patience_ms = WAIT_MS, settings = { model = { maxToolCallsPerTurn = 0 } } })
  until_(function() return turnguard.statusline() == 'turnguard' end, 'the daemon')
  turnguard.open('s', { settings = { model = { maxToolCallsPerTurn = 1 } } })
  equal(turnguard.admitted(record(turnguard), BATCH), BATCH)
  local verdict = record(turnguard)
  equal(verdict.action, 'halt')
  equal(turnguard.admitted(verdict, BATCH), {})
  -- Said once.
  equal(record(turnguard).action, 'halt')
  equal(#told, 1)
  turnguard.close('s')
  equal(record(turnguard).action, 'allow')
end

function cases.wrong_settings(turnguard)
  started(turnguard, real)
  turnguard.open('s', { settings = { model = { maxToolCallsPerTurn = 'many' } } })
  until_(function() return #told == 1 end, 'a complaint')
  has(told[1].message, 'maxToolCallsPerTurn')
end

function cases.wrong_events(turnguard)
  started(turnguard, real)
  local ok, message = pcall(turnguard.record, 's', { { type = 'no such event' } })
  equal(ok, false)
  has(message, 'no such event')
end

function cases.missing(turnguard)
  turnguard.start({ cmd = { 'no-such-turnguard', 'serve' } })
  has(told[1].message, 'no-such-turnguard was not found')
  equal(turnguard.admitted(record(turnguard), BATCH), BATCH)
  has(told[2].message, 'Calls run without the guard')
end

function cases.other_protocol(turnguard)
  turnguard.start({ cmd = broken('other-protocol') }, function() error('ready') end)
  until_(function() return #told == 1 end, 'a complaint')
  has(told[1].message, 'speaks protocol 2, this file speaks 1')
  equal(turnguard.statusline(), 'turnguard off')
end

function cases.silent(turnguard)
  started(turnguard, broken('silent'), 250)
  local first = milliseconds(function() equal(turnguard.admitted(record(turnguard), BATCH), BATCH) end)
  assert(first >= 240, first)
  local second = milliseconds(function() equal(record(turnguard), nil) end)
  assert(second < 240, second)
  equal(#told, 1)
  has(told[1].message, 'does not answer. Calls run without the guard')
end

function cases.ends(turnguard)
  started(turnguard, broken('ends'))
  equal(turnguard.admitted(record(turnguard), BATCH), BATCH)
  until_(function() return turnguard.statusline() == 'turnguard off' end, 'the end of the daemon')
  equal(#told, 2)
  has(told[1].message, ':TurnguardRestart starts it again')
  has(told[2].message, 'Calls run without the guard')
  -- What is started again knows the session as it was opened.
  turnguard.start({ cmd = real })
  turnguard.open('s', { settings = { model = { maxToolCallsPerTurn = 1 } } })
  vim.cmd('TurnguardRestart')
  until_(function() return turnguard.statusline() == 'turnguard' end, 'the daemon')
  equal(record(turnguard).action, 'allow')
  equal(record(turnguard).action, 'halt')
end

function cases.goes_on_without_a_daemon(turnguard)
  local label, goes_on
  vim.ui.select = function(choices, _, on_choice)
    on_choice(vim.tbl_filter(function(choice) return choice[1] == label end, choices)[1])
  end
  local function decide(answer)
    label, goes_on = answer, nil
    turnguard.ask('s', { turnId = 'no such turn' }, function(on) goes_on = on end)
    return goes_on
  end
  started(turnguard, real)
  record(turnguard)
  equal(decide('Continue once'), true)
  equal(#told, 1)
  started(turnguard, broken('silent'), 50)
  equal(decide('Raise the cap'), true)
  turnguard.stop()
  equal(decide('Continue once'), true)
  equal(decide('Stop'), false)
  equal(decide(nil), false)
end

function cases.killed(turnguard)
  local function children()
    return vim.api.nvim_get_proc_children(vim.fn.getpid())
  end
  for _, cmd in ipairs({ broken('silent'), real }) do
    started(turnguard, cmd)
    equal(#children(), 1)
    vim.loop.kill(children()[1], 'sigstop')
    turnguard.stop()
    until_(function() return #children() == 0 end, 'the end of the daemon')
  end
end

function cases.no_trace(turnguard)
  started(turnguard, real)
  turnguard.record('s', { { type = 'toolCalls', calls = { { name = 'read_file', args = { path = 'CANARY' } } } } })
  pcall(turnguard.record, 's', { { type = 'toolCalls', calls = { { name = 5, args = { path = 'CANARY' } } } } })
  local log = io.open(vim.lsp.get_log_path())
  equal(log and log:read('*a'):find('CANARY', 1, true), nil)
end

local ok, message = pcall(function()
  capture()
  cases[vim.env.CASE](require('turnguard'))
end)
io.stdout:write(ok and 'passed\n' or tostring(message) .. '\n')
vim.cmd(ok and 'qall!' or 'cquit 1')
