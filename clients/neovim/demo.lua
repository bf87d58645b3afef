-- A turn of an agent that is stuck, guarded: `:luafile demo.lua`. The model and its tool are made up, the loop around
-- them is the one of docs/protocol.md.

local turnguard = require('turnguard')

local SESSION = 'demo'
local notes = {} -- what the guard has to say to the model
local requests = 0

-- Whatever it is told, it reads the same two files.
local function model()
  requests = requests + 1
  local function read(path)
    return { id = ('call-%d-%s'):format(requests, path), name = 'read_file', args = { path = path } }
  end
  return { read('a.lua'), read('b.lua') }
end

local function run_tool(call)
  return { id = call.id, output = 'what is in ' .. call.args.path }
end

local step

local function run(verdict, calls)
  local results = vim.tbl_map(run_tool, turnguard.admitted(verdict, calls))
  print(('turn: %d calls ran'):format(#results))
  turnguard.record(SESSION, { { type = 'toolResults', results = results } })
  vim.schedule(step)
end

local function ask_guard(calls)
  local verdict = turnguard.record(SESSION, { { type = 'toolCalls', calls = calls } })
  if not verdict or verdict.action ~= 'halt' then
    table.insert(notes, verdict and verdict.modelMessage)
    return run(verdict, calls)
  end
  turnguard.ask(SESSION, verdict, function(goes_on)
    if goes_on then
      ask_guard(calls)
    else
      print('turn: stopped')
    end
  end)
end

function step()
  ask_guard(model(notes))
end

local function turn()
  turnguard.open(SESSION, { agentId = 'demo', settings = { model = { maxToolCallsPerTurn = 3 } } })
  turnguard.record(SESSION, { { type = 'turnStarted' } })
  step()
end

if turnguard.statusline() == 'turnguard off' then
  turnguard.start(nil, turn)
else
  turn()
end
