-- What clients/neovim has to do, one case a run: test_neovim.py says which, by CASE.

local demo = vim.env.CASE_CLIENT .. '/demo.lua'
local real = vim.json.decode(vim.env.CASE_DAEMON)
local WAIT_MS = 20000

local window = require('turnguard.window')
local show, choose = window.notify, window.select -- those of the client

local told = {} -- what the person was told
local function capture()
  window.notify = function(message, level)
    table.insert(told, { message = message, level = level })
  end
end

local function until_(condition, what)
  assert(vim.wait(WAIT_MS, condition, 5), 'waited for ' .. what .. ', told: ' .. vim.inspect(told) .. ', statusline: ' .. require('turnguard').statusline())
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

--- Answers questions with the choice of that label; without one it closes them.
local function answering(label_of)
  return function(choices, _, on_choice)
    local label = label_of()
    on_choice(vim.tbl_filter(function(choice) return choice[1] == label end, choices)[1])
  end
end

function cases.demo(turnguard)
  local answers = { 'Continue once', 'Raise the cap' } -- and then none: the question is closed
  local select = answering(function() return table.remove(answers, 1) end)
  turnguard.start({ cmd = real, patience_ms = WAIT_MS, select = select })
  until_(function() return turnguard.statusline() == 'turnguard' end, 'the daemon')
  local function chat()
    return vim.api.nvim_buf_get_lines(0, 0, -1, false)
  end
  local round = { 'agent: reads a.lua', 'agent: reads b.lua', 'agent: is halted' }
  vim.cmd('luafile ' .. demo)
  until_(function() return chat()[#chat()] == 'agent: was stopped' end, 'the end of the turn')
  equal(chat(), vim.tbl_flatten({ 'you: find the bug', round, round, round, 'agent: was stopped' }))
  for index, count in ipairs({ 4, 6, 8 }) do
    has(told[index].message, ('Stopped after %d tool calls'):format(count))
    equal(told[index].level, vim.log.levels.ERROR)
  end
  equal(#told, 3)
  until_(function() return turnguard.statusline() == 'turnguard 8/7 stopped' end, 'the statusline')
  -- The same again in the same session.
  vim.cmd('luafile ' .. demo)
  until_(function() return chat()[#chat()] == 'agent: was stopped' end, 'the end of the turn')
  equal(chat(), vim.tbl_flatten({ 'you: find the bug', round, 'agent: was stopped' }))
  has(told[4].message, 'Stopped after 4 tool calls')
  until_(function() return turnguard.statusline() == 'turnguard 4/3 stopped' end, 'the statusline')
end

function cases.demo_without_a_daemon(turnguard)
  turnguard.start({ cmd = broken('deaf'), start_ms = WAIT_MS })
  equal(turnguard.statusline(), 'turnguard starting')
  vim.cmd('luafile ' .. demo)
  equal(#told, 1)
  has(told[1].message, 'is still starting. Calls run without the guard')
  until_(function() return vim.api.nvim_buf_line_count(0) > 5 end, 'an agent that goes on')
  equal(#told, 1)
end

function cases.only_a_cap_can_be_raised(turnguard)
  local offered
  turnguard.start({ cmd = real, select = function(choices)
    offered = vim.tbl_map(function(choice) return choice[1] end, choices)
  end })
  turnguard.ask('s', { findings = { { guard = 'turn', loopType = 'turn_tool_call_cap' } } }, error)
  equal(offered, { 'Stop', 'Continue once', 'Raise the cap' })
  turnguard.ask('s', { findings = { { guard = 'turn', loopType = 'global_tool_call_duplicate' } } }, error)
  equal(offered, { 'Stop', 'Continue once' })
end

function cases.stopped_until_the_next_turn(turnguard)
  started(turnguard, real)
  turnguard.open('s', { settings = { model = { maxToolCallsPerTurn = 1 } } })
  record(turnguard)
  record(turnguard)
  until_(function() return turnguard.statusline() == 'turnguard 2/1 halted' end, 'a halt')
  turnguard.record('s', { { type = 'turnEnded', outcome = 'cancelled' } })
  equal(turnguard.statusline(), 'turnguard 2/1 stopped')
  turnguard.record('s', { { type = 'turnStarted' } })
  record(turnguard)
  record(turnguard)
  until_(function() return turnguard.statusline() == 'turnguard 2/1 halted' end, 'a halt')
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
  has(told[1].message, 'speaks protocol 2, this plugin speaks 1')
  equal(turnguard.statusline(), 'turnguard off')
end

function cases.no_protocol(turnguard)
  turnguard.start({ cmd = broken('no-protocol') }, function() error('ready') end)
  until_(function() return #told == 1 end, 'a complaint')
  has(told[1].message, 'is no daemon of turnguard')
end

function cases.a_program_that_is_missing_ends_no_daemon(turnguard)
  started(turnguard, real)
  turnguard.start({ cmd = { 'no-such-turnguard', 'serve' } })
  has(told[1].message, 'no-such-turnguard was not found')
  equal(record(turnguard).action, 'allow')
end

function cases.silent(turnguard)
  started(turnguard, broken('silent'), 250)
  local first = milliseconds(function() equal(turnguard.admitted(record(turnguard), BATCH), BATCH) end)
  assert(first >= 240, first)
  local second = milliseconds(function() equal(record(turnguard), nil) end)
  assert(second < 240, second)
  equal(turnguard.statusline(), 'turnguard no answer')
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
  turnguard.start({ cmd = real, select = answering(function() return label end) })
  local function decide(answer)
    label, goes_on = answer, nil
    local verdict = { turnId = 'no such turn', findings = { { loopType = 'turn_tool_call_cap' } } }
    turnguard.ask('s', verdict, function(on) goes_on = on end)
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
  for _, path in ipairs(vim.fn.globpath(vim.env.XDG_STATE_HOME, '**', false, true)) do
    local file = vim.fn.isdirectory(path) == 0 and io.open(path)
    equal(file and file:read('*a'):find('CANARY', 1, true), file and nil)
  end
end

function cases.words_of_a_daemon_that_ends(turnguard)
  turnguard.start({ cmd = vim.list_extend(vim.deepcopy(real), { '--set', 'no.such=1' }) })
  until_(function() return #told == 1 end, 'a complaint')
  has(told[1].message, 'ended with code 2')
  -- The last line, whole.
  has(told[1].message, 'Its last line: turnguard serve: error: --set: there is no setting "no.such"; turnguard settings prints the names')
end

function cases.chatter(turnguard)
  for count, way in ipairs({ 'chatters', 'mumbles' }) do
    turnguard.start({ cmd = broken(way) }, function() error('ready') end)
    until_(function() return #told == count end, 'a complaint')
    has(told[count].message, 'ended with code 137')
  end
end

function cases.never_starts(turnguard)
  turnguard.start({ cmd = broken('deaf'), start_ms = 50 }, function() error('ready') end)
  until_(function() return #told == 1 end, 'a complaint')
  has(told[1].message, 'has not answered')
  equal(turnguard.statusline(), 'turnguard off')
  turnguard.start({ cmd = real, start_ms = WAIT_MS })
  until_(function() return turnguard.statusline() == 'turnguard' end, 'the daemon')
end

--- The floats there are.
local function floats()
  return vim.tbl_filter(function(each)
    return vim.api.nvim_win_get_config(each).relative ~= ''
  end, vim.api.nvim_list_wins())
end

local function lines_of(each)
  return vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(each), 0, -1, false)
end

local function press(keys)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), 'tx', false)
end

function cases.a_message_takes_no_key()
  vim.o.columns = 60
  local before = vim.api.nvim_get_current_win()
  local text = ('a word and '):rep(30) .. ('x'):rep(99)
  show('first', vim.log.levels.WARN)
  show(text, vim.log.levels.ERROR)
  until_(function() return #floats() == 1 and lines_of(floats()[1])[1] ~= 'first' end, 'a window')
  equal(vim.api.nvim_get_current_win(), before)
  local lines = lines_of(floats()[1])
  equal(table.concat(lines, ' '):gsub('x x', 'xx'), text:gsub('  ', ' '))
  for _, line in ipairs(lines) do
    assert(#line <= 56, line)
  end
  -- It stays while nobody does anything, and can be read afterwards.
  window.messages()
  has(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n'), 'first')
end

--- Opens a question over a buffer with text; the answer is in what is returned.
local function question(text)
  local answer = { is_there = false }
  local items = { { 'Stop' }, { 'Go on' } }
  choose(items, { prompt = 'what now', message = text, format_item = function(item) return item[1] end }, function(item)
    answer.is_there, answer.item = true, item and item[1]
  end)
  until_(function() return #floats() == 1 end, 'a question')
  return answer
end

local function is_open(answer)
  vim.wait(20)
  equal(answer.is_there, false)
end

function cases.a_question_is_answered_by_a_key()
  local before = vim.api.nvim_get_current_win()
  local function answered(keys, item)
    local answer = question(('what was found '):rep(20))
    equal(vim.api.nvim_get_current_win(), before)
    vim.cmd('TurnguardAnswer')
    equal(vim.api.nvim_get_current_win(), floats()[1])
    has(table.concat(lines_of(0), ' '), 'what was found what was found')
    press(keys)
    until_(function() return answer.is_there end, 'an answer')
    equal(answer.item, item)
    equal(#floats(), 0)
    equal(vim.api.nvim_get_current_win(), before)
  end
  answered('<CR>', 'Stop')
  answered('j<CR>', 'Go on')
  answered('q', nil)
  -- A line that is no choice, and Insert mode, which there is not.
  local answer = question('text')
  vim.cmd('TurnguardAnswer')
  press('gg<CR>')
  vim.cmd('silent! normal ione two')
  is_open(answer)
  equal(#floats(), 1)
  press('<Esc><C-w>p<CR>q<Esc>')
  is_open(answer)
  equal(#floats(), 1)
  equal(vim.api.nvim_get_current_win(), before)
end

function cases.what_is_typed_in_passing_is_no_answer()
  local before = vim.api.nvim_get_current_win()
  local answer = question('text')
  press('ione<CR>two<Esc>')
  for key in ('wWjklhbtp'):gmatch('.') do
    press('<C-w>' .. key)
    equal(vim.api.nvim_get_current_win(), before)
  end
  press('<CR>q<Esc>')
  equal(vim.api.nvim_buf_get_lines(0, 0, -1, false), { 'one', 'two' })
  is_open(answer)
end

function cases.a_question_is_found_again()
  local answer = question('text')
  vim.cmd('only')
  equal(#floats(), 0)
  is_open(answer)
  vim.cmd('TurnguardAnswer')
  equal(#floats(), 1)
  vim.cmd('quit')
  is_open(answer)
  vim.cmd('TurnguardAnswer')
  press('<Esc>')
  vim.cmd('tabnew')
  vim.cmd('TurnguardAnswer')
  equal(#floats(), 1)
  equal(vim.api.nvim_get_current_win(), floats()[1])
  press('j<CR>')
  until_(function() return answer.is_there end, 'an answer')
  equal(answer.item, 'Go on')
  vim.cmd('TurnguardAnswer')
  equal(#told, 1)
  has(told[1].message, 'there is no question')
end

function cases.a_question_is_where_nobody_types()
  vim.o.lines = 30
  local function shown_at(keys)
    vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.fn['repeat']({ 'text' }, 25))
    press(keys)
    local answer = question('text')
    local anchor = vim.api.nvim_win_get_config(floats()[1]).anchor
    vim.cmd('TurnguardAnswer')
    press('<Esc>')
    equal(vim.api.nvim_win_get_config(floats()[1]).anchor, anchor)
    vim.cmd('TurnguardAnswer')
    press('q')
    until_(function() return answer.is_there end, 'an answer')
    return anchor
  end
  equal(shown_at('gg'), 'SE')
  equal(shown_at('G'), 'NE')
end

function cases.questions_come_one_after_the_other()
  local first, second = question('first'), question('second')
  has(table.concat(lines_of(floats()[1]), ' '), 'first')
  vim.cmd('TurnguardAnswer')
  press('<CR>')
  until_(function() return first.is_there end, 'an answer')
  has(table.concat(lines_of(floats()[1]), ' '), 'second')
  -- ENTER once more is not for the second.
  press('<CR>')
  is_open(second)
end

function cases.a_question_hides_the_message_of_the_same()
  show('text', vim.log.levels.ERROR)
  question('text')
  equal(#floats(), 1)
end

local ok, message = pcall(function()
  capture()
  -- Only after that: it takes what is there when it is loaded.
  cases[vim.env.CASE](require('turnguard'))
end)
io.stdout:write(ok and 'passed\n' or tostring(message) .. '\n')
vim.cmd(ok and 'qall!' or 'cquit 1')
