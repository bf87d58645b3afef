;;; turnguard-demo.el --- A turn that is stuck, guarded  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; M-x turnguard-demo.  The model and its tool are made up, the loop around them is the one of docs/protocol.md.

;;; Code:

(require 'turnguard)

(defconst turnguard-demo--session "demo")

(defun turnguard-demo--model (request _notes)
  "Read the same two files, in the REQUEST of that number."
  (seq-into (seq-map (lambda (path)
                       `(:id ,(format "call-%d-%s" request path) :name "read_file" :args (:path ,path)))
                     '("a.el" "b.el"))
            'vector))

(defun turnguard-demo--tool (call)
  "Run CALL."
  `(:id ,(plist-get call :id) :output ,(format "what is in %s" (thread-first call (plist-get :args) (plist-get :path)))))

(defun turnguard-demo--verdict (calls)
  "Ask the guard about CALLS, and if it halts the person.
Return the last verdict; if that is a halt the turn is over."
  (let ((verdict (turnguard-record turnguard-demo--session `(:type "toolCalls" :calls ,calls))))
    (if (and (turnguard-halted-p verdict) (turnguard-ask turnguard-demo--session verdict))
        (turnguard-demo--verdict calls)
      verdict)))

;;;###autoload
(defun turnguard-demo ()
  "Run an agent that reads the same two files until you stop it."
  (interactive)
  (turnguard-mode)
  (turnguard-open turnguard-demo--session :agentId "demo" :settings '(:model (:maxToolCallsPerTurn 3)))
  (turnguard-record turnguard-demo--session '(:type "turnStarted"))
  (cl-loop
   with notes = nil
   for request from 1
   for calls = (turnguard-demo--model request notes)
   for verdict = (turnguard-demo--verdict calls)
   until (turnguard-halted-p verdict)
   for results = (vconcat (seq-map #'turnguard-demo--tool (turnguard-admitted verdict calls)))
   do (push (plist-get verdict :modelMessage) notes)
   do (message "turn: %d calls ran" (length results))
   do (turnguard-record turnguard-demo--session `(:type "toolResults" :results ,results)))
  (message "turn: stopped"))

(provide 'turnguard-demo)
;;; turnguard-demo.el ends here
