;;; turnguard.el --- Guards the turns of an agent that lives in Emacs  -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, processes
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Starts `turnguard serve', tells it each batch of tool calls before any of them runs, and shows what it says: a halt
;; and a warning in a buffer of the session, the count of calls in the mode line.  It never keeps an agent waiting for
;; long: without an answer the calls run, and the person is told once.  It never takes a key from what the person types,
;; and nothing that fails at the start of Emacs keeps Emacs from starting.
;;
;; JSON arrays are vectors, JSON objects are plists; an empty plist would be null, so take an empty hash table.

;;; Code:

(require 'button)
(require 'cl-lib)
(require 'jsonrpc)
(require 'seq)
(require 'subr-x)

(defgroup turnguard nil
  "Guards the turns of an agent."
  :group 'tools)

(defcustom turnguard-command '("turnguard" "serve")
  "The command line of the daemon."
  :type '(repeat string))

(defcustom turnguard-settings nil
  "The settings that you want to set, and no others, as a plist.
For example (:model (:maxToolCallsPerTurn 200)); docs/settings.md has all."
  :type 'plist)

(defcustom turnguard-patience 0.25
  "Seconds that an agent may be kept waiting for a verdict.
What comes later is too late: the batch has run, and you were told."
  :type 'number)

(defconst turnguard--protocol-version 1)

(defvar turnguard-start-seconds 10
  "Seconds that the daemon may take to start.")

(defconst turnguard--end-seconds 2
  "Seconds that the daemon may take to end; then it is killed.")

(defconst turnguard--cap "turn_tool_call_cap"
  "The `loopType' of a cap that halted.")

(defvar turnguard--connection nil "The connection to a daemon that has shaken hands.")
(defvar turnguard--starting nil "The connection to a daemon that has not shaken hands yet.")
(defvar turnguard--sessions nil "Sessions, each with what it is opened with, also at the next daemon.")
(defvar turnguard--opened nil "The sessions that this daemon knows.")
(defvar turnguard--over nil "The sessions whose turn has ended.")
(defvar turnguard--latest nil "The status that changed last.")
(defvar turnguard--silent nil "Whether an answer is late; the next ones are not waited for then.")
(defvar turnguard--told nil "Whether the person knows that calls run without the guard.")

(defun turnguard--say (format &rest arguments)
  "Show a short message made of FORMAT and ARGUMENTS."
  (message "turnguard: %s" (apply #'format format arguments)))

(defun turnguard--warn (text)
  "Show TEXT that is not about one turn, and may be long."
  (display-warning 'turnguard text))

(defun turnguard--not-started (why)
  "Say WHY the daemon that was wanted did not start."
  (turnguard--warn (concat why (if turnguard--connection "." ".  Calls run without the guard."))))

(defun turnguard--unguarded (why)
  "Say WHY calls run without the guard, once; return nil."
  (unless turnguard--told
    (setq turnguard--told t)
    (turnguard--say "%s; calls run without the guard" why)
    nil))

(defun turnguard--set-silent (silent)
  "An answer is late if SILENT, and came if not."
  (unless (eq silent turnguard--silent)
    (setq turnguard--silent silent)
    (force-mode-line-update t)))

(defun turnguard--heard (_connection method params)
  "Take the notification METHOD with its PARAMS."
  (pcase method
    ('turnguard/didChangeSession
     (setq turnguard--latest params)
     (force-mode-line-update t))
    ('window/showMessage
     (turnguard--warn (plist-get params :message)))))

(defun turnguard--ended (connection)
  "The daemon at the other end of CONNECTION is gone."
  (when (eq connection turnguard--connection)
    (setq turnguard--connection nil turnguard--latest nil)
    (force-mode-line-update t)
    (turnguard--say "the daemon ended; M-x turnguard-start starts it again%s" (turnguard--last-line connection))))

(defun turnguard--connect ()
  "Start the daemon and return a connection to it."
  (make-instance
   'jsonrpc-process-connection
   :name "turnguard"
   ;; Arguments of tools are secrets: no buffer keeps what is sent.
   :events-buffer-scrollback-size 0
   :notification-dispatcher #'turnguard--heard
   :on-shutdown #'turnguard--ended
   :process (lambda ()
              (make-process :name "turnguard" :command turnguard-command :connection-type 'pipe
                            :coding 'utf-8-emacs-unix :noquery t
                            ;; jsonrpc.el expects this name.
                            :stderr (get-buffer-create "*turnguard stderr*")))))

;;;###autoload
(defun turnguard-start ()
  "Start the daemon, or start it anew; its sessions begin anew too.
Returns at once, and signals nothing, so that an init file goes
on: what fails is shown as a warning, and calls run without the
guard."
  (interactive)
  (condition-case failure
      (if (null (executable-find (car turnguard-command)))
          (turnguard--not-started
           (format "%s was not found: %s" (car turnguard-command)
                   "(setq turnguard-command '(\"/path/to/turnguard/.venv/bin/turnguard\" \"serve\")) \
with the path of your clone of turnguard"))
        (turnguard-stop)
        (turnguard--shake-hands (setq turnguard--starting (turnguard--connect))))
    (error (turnguard--refuse turnguard--starting (error-message-string failure))))
  (force-mode-line-update t))

(defun turnguard--shake-hands (connection)
  "Send `initialize' to the daemon at the other end of CONNECTION."
  (jsonrpc-async-request
   connection 'initialize
   `(:processId ,(emacs-pid) :rootUri nil :capabilities ,(make-hash-table)
     :initializationOptions (:settings ,turnguard-settings))
   :success-fn (lambda (answer)
                 (when (eq connection turnguard--starting)
                   (turnguard--shaken connection answer)))
   :error-fn (lambda (error)
               (turnguard--refuse connection
                                  (if (jsonrpc-running-p connection)
                                      (plist-get error :message)
                                    (concat "it ended at once" (turnguard--last-line connection)))))
   :timeout turnguard-start-seconds
   :timeout-fn (lambda ()
                 (turnguard--refuse connection (format "no answer for %s seconds, so it was ended"
                                                       turnguard-start-seconds)))))

(defun turnguard--shaken (connection answer)
  "Take the daemon at the other end of CONNECTION, if its ANSWER fits."
  (if-let ((misfit (turnguard--misfit answer)))
      (turnguard--refuse connection misfit)
    (jsonrpc-notify connection 'initialized (make-hash-table))
    (setq turnguard--starting nil turnguard--connection connection
          turnguard--opened nil turnguard--silent nil turnguard--told nil)
    (force-mode-line-update t)))

(defun turnguard--misfit (answer)
  "Return what is wrong with the ANSWER to `initialize', or nil."
  (let ((version (thread-first answer
                   (plist-get :capabilities) (plist-get :experimental) (plist-get :turnguard)
                   (plist-get :protocolVersion))))
    (cond ((null version) "it is no daemon of turnguard")
          ((not (eql version turnguard--protocol-version))
           (format "it speaks protocol %s, turnguard.el speaks %d: update the older of the two"
                   version turnguard--protocol-version)))))

(defun turnguard--refuse (connection why)
  "End the daemon at the other end of CONNECTION, and say WHY it does not start."
  (when (eq connection turnguard--starting)
    (setq turnguard--starting nil)
    (when connection (turnguard--kill connection))
    (force-mode-line-update t)
    ;; It may be of another type than it should be.
    (turnguard--not-started (format "%s: %s" turnguard-command why))))

(defun turnguard--last-line (connection)
  "Return the last line that the daemon of CONNECTION wrote on stderr."
  (with-current-buffer (jsonrpc-stderr-buffer connection)
    (when-let ((process (get-buffer-process (current-buffer))))
      (while (accept-process-output process 0.1)))
    (let ((said (car (split-string (buffer-string) "^Process .* finished" t "[ \t\n]+"))))
      (if said (concat ": " (car (last (split-string said "\n")))) ""))))

(defun turnguard-stop ()
  "End the daemon, by force if it does not listen."
  (interactive)
  (when-let ((connection turnguard--starting))
    (setq turnguard--starting nil)
    (turnguard--kill connection)
    (force-mode-line-update t))
  (when-let ((connection turnguard--connection))
    (setq turnguard--connection nil turnguard--latest nil)
    (run-at-time turnguard--end-seconds nil #'turnguard--kill connection)
    ;; Emacs refuses to write to a process that is suspended.
    (ignore-errors
      (jsonrpc-async-request connection 'shutdown nil
                             :timeout nil
                             :success-fn (lambda (_) (ignore-errors (jsonrpc-notify connection 'exit nil)))
                             :error-fn #'ignore))
    (force-mode-line-update t)))

(defun turnguard--kill (connection)
  "End the daemon at the other end of CONNECTION by force."
  (delete-process (jsonrpc--process connection)))

(defun turnguard--answers ()
  "The daemon has answered."
  (setq turnguard--told nil)
  (turnguard--set-silent nil))

(defun turnguard--request (method params answered failed)
  "Send METHOD with PARAMS; call ANSWERED with the result or FAILED with the error.
Answers come in the order of the requests, so only those that
matter have to be waited for.  Return nil if it cannot be sent:
Emacs refuses to write to a process that is suspended."
  (condition-case nil
      (progn
        (jsonrpc-async-request
         turnguard--connection method params
         :timeout nil
         :success-fn (lambda (result)
                       (turnguard--answers)
                       (funcall answered result))
         :error-fn (lambda (error)
                     (turnguard--answers)
                     (funcall failed error)))
        t)
    (error nil)))

(defun turnguard--ask (method params)
  "Return what METHOD with PARAMS is answered, nil without an answer in time.
Signals the error of the daemon."
  (if (null turnguard--connection)
      (turnguard--unguarded (if turnguard--starting
                                "the daemon is still starting"
                              "the daemon is not running, see M-x turnguard-start"))
    (let ((deadline (+ (float-time) (if turnguard--silent 0 turnguard-patience)))
          answer failure sent)
      (setq sent (turnguard--request method params
                                     (lambda (result) (setq answer result))
                                     (lambda (error) (setq failure error))))
      (while (and sent (null answer) (null failure) turnguard--connection (< (float-time) deadline))
        (accept-process-output nil 0.005))
      (cond
       ((null turnguard--connection) (turnguard--unguarded "the daemon ended"))
       (failure (error "turnguard: %s (%s)" (plist-get failure :message) (plist-get failure :code)))
       ((null answer)
        (turnguard--set-silent t)
        (turnguard--unguarded "the daemon does not answer"))
       (t answer)))))

(defun turnguard--open (session)
  "Open SESSION at the daemon, if there is one that does not know it."
  (when (and turnguard--connection
             (not (member session turnguard--opened))
             (turnguard--request 'turnguard/openSession
                                 (cdr (assoc session turnguard--sessions))
                                 #'ignore
                                 (lambda (error) (turnguard--warn (plist-get error :message)))))
    (push session turnguard--opened)))

(defun turnguard-open (session &rest params)
  "Open SESSION, one for each conversation.
PARAMS are those of `turnguard/openSession'.  `turnguard-record'
opens one by itself if need be; this is for those that need
settings of their own."
  (setf (alist-get session turnguard--sessions nil nil #'equal)
        `(:sessionId ,session :cwd ,(expand-file-name default-directory) ,@params))
  (turnguard--open session))

(defun turnguard-close (session)
  "Close SESSION, at the end of its conversation."
  (setf (alist-get session turnguard--sessions nil t #'equal) nil)
  (setq turnguard--over (remove session turnguard--over))
  (when (and turnguard--connection (member session turnguard--opened))
    (setq turnguard--opened (remove session turnguard--opened))
    (turnguard--request 'turnguard/closeSession `(:sessionId ,session) #'ignore #'ignore)))

(defun turnguard-record (session &rest events)
  "Tell the EVENTS of SESSION, those of docs/protocol.md.
Show what is new in the verdict, and return it; without an answer
return nil: then all calls may run."
  (if (assoc session turnguard--sessions)
      (turnguard--open session)
    (turnguard-open session))
  (dolist (event events)
    (pcase (plist-get event :type)
      ("turnEnded" (cl-pushnew session turnguard--over :test #'equal))
      ((or "turnStarted" "toolCalls") (setq turnguard--over (remove session turnguard--over)))))
  (when-let ((verdict (turnguard--ask 'turnguard/record `(:sessionId ,session :events ,(vconcat events)))))
    (when (and (eq t (plist-get (turnguard--finding verdict) :fresh))
               (plist-get verdict :userMessage))
      (turnguard--show session (plist-get verdict :userMessage)))
    verdict))

(defun turnguard--finding (verdict)
  "Return the strictest finding of VERDICT, or nil."
  (let ((findings (plist-get verdict :findings)))
    (unless (seq-empty-p findings)
      (seq-first findings))))

(defun turnguard-halted-p (verdict)
  "Whether VERDICT ends the turn."
  (equal (plist-get verdict :action) "halt"))

(defun turnguard-admitted (verdict calls)
  "Return those of CALLS that may run.
VERDICT is what `turnguard-record' returned for them."
  (if (null verdict)
      calls
    (vconcat (seq-map (lambda (index) (seq-elt calls index)) (plist-get verdict :admitted)))))

;; The echo area shows a few lines at most, and until the next message.

(defvar turnguard-session-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap button-buffer-map special-mode-map))
    (define-key map "q" #'turnguard-quit)
    map)
  "Keys where turnguard shows what it says of a session.")

(define-derived-mode turnguard-session-mode special-mode "Turnguard"
  "What turnguard says of a session, and its question about a turn that was halted."
  (visual-line-mode)
  (add-hook 'kill-buffer-hook #'turnguard--decided nil t))

(defconst turnguard--display
  '((display-buffer-reuse-window turnguard--below display-buffer-no-window)
    (reusable-frames . visible)
    (inhibit-same-window . t)
    (allow-no-window . t)
    (window-height . fit-window-to-buffer))
  "How the buffer of a session is shown: never in the window in which one types.")

(defun turnguard--below (buffer alist)
  "Show BUFFER in a new window at the bottom of the frame, as ALIST says."
  (when-let ((window (ignore-errors (split-window (window-main-window) nil 'below))))
    (window--display-buffer buffer window 'window alist)))

(defvar-local turnguard--on-decision nil "What is to be called with the decision, while none was made.")
(defvar-local turnguard--choice nil "What the person chose; nil, also where nothing was chosen, stops the turn.")

(defun turnguard-quit ()
  "Close what turnguard shows; the answer to a question is to stop the turn then."
  (interactive)
  (let ((buffer (current-buffer)))
    (quit-windows-on buffer t)
    (when (buffer-live-p buffer) ; shown nowhere
      (kill-buffer buffer))))

(defun turnguard--decided ()
  "Pass the decision on, when the buffer is killed."
  (when turnguard--on-decision
    ;; Not from inside of the killing: the agent may go on from here.
    (run-at-time 0 nil turnguard--on-decision turnguard--choice)
    (setq turnguard--on-decision nil)))

(defun turnguard--buffer (session)
  "Return a buffer of SESSION where no question waits and nobody types."
  (cl-loop for number from 1
           for name = (format "*turnguard: %s*%s" session (if (= number 1) "" (format "<%d>" number)))
           for buffer = (get-buffer-create name)
           unless (or (buffer-local-value 'turnguard--on-decision buffer)
                      (eq buffer (window-buffer (selected-window))))
           return buffer))

(defun turnguard--write (session write)
  "Empty the buffer of SESSION, call WRITE in it, and return it."
  (with-current-buffer (turnguard--buffer session)
    (turnguard-session-mode)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (funcall write))
    (goto-char (point-min))
    (current-buffer)))

(defun turnguard--show (session text)
  "Show TEXT about SESSION, without a question."
  (display-buffer (turnguard--write session (lambda () (insert text "\n"))) turnguard--display))

(defun turnguard--button (label action)
  "Insert a button with LABEL that chooses ACTION."
  (insert-text-button label 'action (lambda (_) (setq turnguard--choice action) (turnguard-quit)))
  (insert "   "))

(defun turnguard-ask (session verdict on-decision)
  "Ask the person what becomes of the turn of SESSION that VERDICT halted.
Returns at once.  ON-DECISION is called with non-nil if the turn
goes on: then the batch has to be recorded again.  Who closes the
question has stopped the turn.  Where the daemon does not do what
the person wants the turn goes on all the same: it is gone, and
its halt with it, or it will say so again."
  (let ((buffer (turnguard--write
                 session
                 (lambda ()
                   (turnguard--button "[Stop]" nil)
                   (turnguard--button "[Continue once]" "continueOnce")
                   (when (equal turnguard--cap (plist-get (turnguard--finding verdict) :loopType))
                     (turnguard--button "[Raise the cap]" "raiseCap"))
                   (insert "\n\n" (or (plist-get verdict :userMessage) "") "\n\n"
                           "RET takes what is at point, TAB moves, q stops the turn.\n")))))
    (with-current-buffer buffer
      (setq header-line-format "turnguard halted the turn: M-x turnguard-answer goes here, and C-x o"
            turnguard--on-decision (lambda (action) (turnguard--decide session verdict action on-decision))))
    (turnguard--show-question buffer)))

(defun turnguard--show-question (buffer)
  "Show the question in BUFFER, unless it was answered."
  (when (buffer-live-p buffer)
    ;; Where it is shown already the window may have to grow.
    (unless (or (eq buffer (window-buffer (selected-window)))
                (display-buffer buffer turnguard--display))
      (turnguard--say "a turn was halted; M-x turnguard-answer shows the question"))
    ;; At its end the windows become what they were at its begin.
    (when (active-minibuffer-window)
      (letrec ((again (lambda ()
                        (remove-hook 'minibuffer-exit-hook again)
                        (run-at-time 0 nil #'turnguard--show-question buffer))))
        (add-hook 'minibuffer-exit-hook again)))))

(defun turnguard--questions ()
  "Return the buffers where a question waits."
  (seq-filter (lambda (buffer) (buffer-local-value 'turnguard--on-decision buffer)) (buffer-list)))

(defun turnguard-answer ()
  "Go to the question about a turn that was halted, or to the next one."
  (interactive)
  (let* ((questions (turnguard--questions))
         (buffer (car (or (remq (current-buffer) questions) questions))))
    (cond ((null buffer) (user-error "There is no question of turnguard"))
          ((eq buffer (current-buffer)))
          ((display-buffer buffer turnguard--display) (pop-to-buffer buffer turnguard--display))
          (t (switch-to-buffer buffer)))))

(defun turnguard--decide (session verdict action on-decision)
  "Tell the daemon that ACTION was chosen for SESSION after VERDICT.
Then call ON-DECISION."
  (condition-case failure
      (if action
          (turnguard--ask 'turnguard/override
                          `(:sessionId ,session :turnId ,(plist-get verdict :turnId) :action ,action))
        (turnguard-record session '(:type "turnEnded" :outcome "cancelled")))
    (error (message "%s" (error-message-string failure))))
  (force-mode-line-update t)
  (funcall on-decision (and action t)))

(defconst turnguard--mode-line-map
  (let ((map (make-sparse-keymap)))
    (define-key map [mode-line mouse-1] #'turnguard-answer)
    map)
  "Keys on what the mode line says of a halt.")

(defun turnguard-mode-line ()
  "Return what the mode line says."
  (let* ((latest turnguard--latest)
         (cap (plist-get latest :cap))
         (state (plist-get latest :state)))
    (cond
     (turnguard--starting " turnguard starting")
     ((null turnguard--connection) " turnguard off")
     (turnguard--silent (propertize " turnguard no answer" 'face 'warning))
     ((null latest) " turnguard")
     (t
      ;; A halted turn that ends stays halted for the daemon.
      (when (and (equal state "halted") (member (plist-get latest :sessionId) turnguard--over))
        (setq state "stopped"))
      (let ((text (format " turnguard %d%s%s"
                          (thread-first latest (plist-get :totals) (plist-get :toolCalls))
                          ;; The adaptive cap is not a hard one.
                          (if (plist-get cap :value)
                              (format "/%s%d" (if (eq t (plist-get cap :explicit)) "" "~") (plist-get cap :value))
                            "")
                          (if (equal state "running") "" (concat " " state)))))
        (if (equal state "halted")
            (propertize text 'face 'error 'mouse-face 'mode-line-highlight
                        'help-echo "mouse-1: go to the question" 'local-map turnguard--mode-line-map)
          text))))))

;;;###autoload
(define-minor-mode turnguard-mode
  "Run the turnguard daemon, and show in the mode line what it counts."
  :global t
  (let ((item '(:eval (turnguard-mode-line))))
    (setq global-mode-string (remove item (or global-mode-string '(""))))
    (if (not turnguard-mode)
        (turnguard-stop)
      (setq global-mode-string (append global-mode-string (list item)))
      (unless (or turnguard--starting turnguard--connection) (turnguard-start)))))

(provide 'turnguard)
;;; turnguard.el ends here
