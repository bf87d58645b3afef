;;; turnguard-demo.el --- A turn that is stuck, guarded  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; M-x turnguard-demo.  The model and its tool are made up, the loop around them is the one of docs/protocol.md.

;;; Code:

(require 'turnguard)

(defconst turnguard-demo--session "demo")
(defconst turnguard-demo--buffer "*turnguard demo*")
(defconst turnguard-demo--model-seconds 0.3 "Seconds that the model takes to answer.")

(defvar turnguard-demo--runs 0 "How often this was run; ids of calls are new in a session.")

(defun turnguard-demo--say (line)
  "Write LINE into the conversation."
  (with-current-buffer turnguard-demo--buffer
    (goto-char (point-max))
    (insert line "\n")))

(defun turnguard-demo--model (request _notes)
  "Read the same two files, in the REQUEST of that number."
  (vconcat (seq-map (lambda (path)
                      `(:id ,(format "call-%d-%d-%s" turnguard-demo--runs request path)
                        :name "read_file" :args (:path ,path)))
                    '("a.el" "b.el"))))

(defun turnguard-demo--tool (call)
  "Run CALL."
  (let ((path (thread-first call (plist-get :args) (plist-get :path))))
    (turnguard-demo--say (concat "agent: reads " path))
    `(:id ,(plist-get call :id) :output ,(format "what is in %s" path))))

(defun turnguard-demo--step (request notes)
  "Make the REQUEST of that number to the model, with NOTES of the guard."
  (when (get-buffer turnguard-demo--buffer)
    (turnguard-demo--guarded (turnguard-demo--model request notes) request notes)))

(defun turnguard-demo--guarded (calls request notes)
  "Run those of CALLS that the guard admits.
Then make the next request after REQUEST, with NOTES.  If the guard
halts the turn, the person decides."
  (let ((verdict (turnguard-record turnguard-demo--session `(:type "toolCalls" :calls ,calls))))
    (if (turnguard-halted-p verdict)
        (progn
          (turnguard-demo--say "agent: is halted")
          (turnguard-ask turnguard-demo--session verdict
                         (lambda (goes-on)
                           (cond ((null (get-buffer turnguard-demo--buffer)))
                                 (goes-on (turnguard-demo--guarded calls request notes))
                                 (t (turnguard-demo--say "agent: was stopped"))))))
      (let ((results (vconcat (seq-map #'turnguard-demo--tool (turnguard-admitted verdict calls)))))
        (turnguard-record turnguard-demo--session `(:type "toolResults" :results ,results)))
      (run-at-time turnguard-demo--model-seconds nil #'turnguard-demo--step
                   (1+ request) (cons (plist-get verdict :modelMessage) notes)))))

;;;###autoload
(defun turnguard-demo ()
  "Run an agent that reads the same two files until you stop it."
  (interactive)
  ;; An agent waits for no guard that is still starting; the person is told.
  (turnguard-mode)
  (setq turnguard-demo--runs (1+ turnguard-demo--runs))
  (pop-to-buffer-same-window (get-buffer-create turnguard-demo--buffer))
  (erase-buffer)
  (turnguard-demo--say "you: find the bug")
  (turnguard-open turnguard-demo--session :agentId "demo" :settings '(:model (:maxToolCallsPerTurn 3)))
  (turnguard-record turnguard-demo--session '(:type "turnStarted"))
  (turnguard-demo--step 1 nil))

(provide 'turnguard-demo)
;;; turnguard-demo.el ends here
