--- JSON-RPC with a process, over its stdin and stdout, each message behind a `Content-Length` header.
---
--- Not by way of `vim.lsp`: its client has messages of its own for the end of a process, which wait for ENTER, and a log
--- of what is sent.

local M = {}

local HEADER_BYTES = 8192 -- docs/protocol.md; what has no message within them is another program
local WORDS_BYTES = 8192 -- of what a process said last; its last line is in there

local END_OF_HEADER = '\r\n\r\n'

--- Calls `on_message` with each message in what comes piece by piece; false from where on it is none.
local function reader(on_message)
  local pending = ''
  return function(piece)
    pending = pending .. piece
    while true do
      local from, to = pending:find(END_OF_HEADER, 1, true)
      if not from then
        return #pending <= HEADER_BYTES
      end
      local length = tonumber(pending:sub(1, from):match('Content%-Length: *(%d+)'))
      if not length then
        return false
      elseif #pending < to + length then
        return true
      end
      local body = pending:sub(to + 1, to + length)
      pending = pending:sub(to + length + 1)
      local is_json, message = pcall(vim.json.decode, body, { luanil = { object = true } })
      if not is_json or type(message) ~= 'table' then
        return false
      end
      on_message(message)
    end
  end
end

--- Starts `cmd`, a list of words; throws when it cannot be started.
--- `on_notification(method, params)`; `on_exit(code, words)`: its exit code, and the last line it wrote on stderr.
--- Returns `request(method, params, on_answer)` with `on_answer(err, result)`, `notify(method, params)`, `end_input()` and
--- `kill()`.
function M.start(cmd, on_notification, on_exit)
  local waiting = {} -- what is to be called, by the id of the request
  local last_id = 0
  local words = ''
  local job

  local function kill()
    local known, pid = pcall(vim.fn.jobpid, job)
    if known then
      vim.loop.kill(pid, 'sigkill')
    end
  end

  local function send(message)
    message.jsonrpc = '2.0'
    local body = vim.json.encode(message)
    -- A process that is gone takes nothing; that is what `on_exit` is for.
    pcall(vim.fn.chansend, job, ('Content-Length: %d%s%s'):format(#body, END_OF_HEADER, body))
  end

  local read = reader(function(message)
    local on_answer = waiting[message.id]
    if message.method then
      on_notification(message.method, message.params)
    elseif on_answer then
      waiting[message.id] = nil
      on_answer(message.error, message.result)
    end
  end)

  job = vim.fn.jobstart(cmd, {
    on_stdout = function(_, lines)
      if not read(table.concat(lines, '\n')) then
        kill()
      end
    end,
    on_stderr = function(_, lines)
      words = (words .. table.concat(lines, '\n')):sub(-WORDS_BYTES)
    end,
    on_exit = function(_, code)
      on_exit(code, vim.trim(words):match('[^\n]*$'))
    end,
  })

  return {
    request = function(method, params, on_answer)
      last_id = last_id + 1
      waiting[last_id] = on_answer
      send({ id = last_id, method = method, params = params })
    end,
    notify = function(method, params)
      send({ method = method, params = params })
    end,
    end_input = function()
      pcall(vim.fn.chanclose, job, 'stdin')
    end,
    kill = kill,
  }
end

return M
