-- A turn of an agent that is stuck, guarded: `:luafile demo.lua`. The model and its tool are made up, the loop around
-- them is the one of docs/protocol.md.

local turnguard = require('turnguard')

local SESSION = 'demo'
local MODEL_MS = 300 -- what the model takes to answer
local notes = {} -- what the guard has to say to the model
local requests = 0
local run_id = vim.loop.hrtime() -- ids of calls are new in a session, also when this is run again

-- The conversation, in a window of its own.
vim.cmd('new')
local chat = vim.api.nvim_get_current_buf()
vim.bo[chat].buftype = 'nofile'
vim.bo[chat].bufhidden = 'wipe'
vim.api.nvim_buf_set_lines(chat, 0, -1, false, { 'you: find the bug' })

local function write(line)
  vim.api.nvim_buf_set_lines(chat, -1, -1, false, { line })
end

-- Whatever it is told, it reads the same two files.
local function model()
  requests = requests + 1
  local function read(path)
    return { id = ('call-%d-%d-%s'):format(run_id, requests, path), name = 'read_file', args = { path = path } }
  end
  return { read('a.lua'), read('b.lua') }
end

local function run_tool(call)
  write('agent: reads ' .. call.args.path)
  return { id = call.id, output = 'what is in ' .. call.args.path }
end

local step

local function run(verdict, calls)
  local results = vim.tbl_map(run_tool, turnguard.admitted(verdict, calls))
  turnguard.record(SESSION, { { type = 'toolResults', results = results } })
  vim.defer_fn(function()
    if vim.api.nvim_buf_is_valid(chat) then
      step()
    end
  end, MODEL_MS)
end

local function ask_guard(calls)
  local verdict = turnguard.record(SESSION, { { type = 'toolCalls', calls = calls } })
  if not verdict or verdict.action ~= 'halt' then
    table.insert(notes, verdict and verdict.modelMessage)
    return run(verdict, calls)
  end
  write('agent: is halted')
  turnguard.ask(SESSION, verdict, function(goes_on)
    if not vim.api.nvim_buf_is_valid(chat) then
      return
    elseif goes_on then
      ask_guard(calls)
    else
      write('agent: was stopped')
    end
  end)
end

function step()
  ask_guard(model(notes))
end

-- An agent waits for no guard that is still starting; the person is told.
if turnguard.statusline() == 'turnguard off' then
  turnguard.start()
end
turnguard.open(SESSION, { agentId = 'demo', settings = { model = { maxToolCallsPerTurn = 3 } } })
turnguard.record(SESSION, { { type = 'turnStarted' } })
step()
