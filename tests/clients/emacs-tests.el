;;; emacs-tests.el --- What clients/emacs has to do  -*- lexical-binding: t; -*-

;;; Commentary:

;; test_emacs.py runs each test in an Emacs of its own.

;;; Code:

(require 'ert)
(require 'turnguard)
(require 'turnguard-demo)

(defconst tests-batch [(:name "read_file" :args (:path "a"))])

(defvar tests-told nil "What `message' showed, the latest first.")

(defun tests-daemon ()
  "Return the command line of the daemon."
  (split-string (getenv "CASE_DAEMON") "\n"))

(defun tests-broken (way)
  "Return the command line of a daemon that is broken in that WAY."
  (append (split-string (getenv "CASE_BROKEN") "\n") (list way)))

(defun tests-told (part)
  "Return how many messages have PART."
  (seq-count (lambda (each) (string-search part each)) tests-told))

(defmacro tests-with-daemon (command &rest body)
  "Run BODY with COMMAND as the daemon, and what is shown in `tests-told'."
  (declare (indent 1))
  ;; The machine may be busy: only what is about waiting is impatient.
  `(let ((turnguard-command ,command) (turnguard-patience 20) tests-told)
     (cl-letf (((symbol-function 'message)
                (lambda (format &rest arguments) (push (apply #'format format arguments) tests-told))))
       ,@body)))

(defmacro tests-until (condition)
  "Wait for CONDITION."
  `(let ((deadline (+ (float-time) 20)))
     (while (and (not ,condition) (< (float-time) deadline))
       (accept-process-output nil 0.01))
     (should ,condition)))

(defun tests-record ()
  "Record a batch."
  (turnguard-record "s" `(:type "toolCalls" :calls ,tests-batch)))

(defun tests-shown (session)
  "Return what is shown about SESSION, as one line."
  (if-let ((buffer (get-buffer (format "*turnguard: %s*" session))))
      (with-current-buffer buffer (string-join (split-string (buffer-string)) " "))
    ""))

(defun tests-answer (session label)
  "Push the button with that LABEL in the question about SESSION; nil closes it."
  (with-current-buffer (format "*turnguard: %s*" session)
    (if (null label)
        (turnguard-quit)
      (goto-char (point-min))
      (search-forward (format "[%s]" label))
      (push-button (match-beginning 0)))))

(ert-deftest demo ()
  (tests-with-daemon (tests-daemon)
    (turnguard-demo)
    (cl-loop
     for count in '(4 6 8)
     for label in '("Continue once" "Raise the cap" nil)
     do (tests-until (string-search (format "Stopped after %d tool calls" count) (tests-shown "demo")))
     do (tests-until (get-buffer-window "*turnguard: demo*"))
     do (tests-answer "demo" label))
    (tests-until (with-current-buffer "*turnguard demo*" (string-search "agent: was stopped" (buffer-string))))
    (let ((round "agent: reads a.el\nagent: reads b.el\nagent: is halted\n"))
      (should (equal (with-current-buffer "*turnguard demo*" (buffer-string))
                     (concat "you: find the bug\n" round round round "agent: was stopped\n"))))
    (should (null tests-told))
    (tests-until (equal (turnguard-mode-line) " turnguard 8/7 halted"))
    (should (eq 'error (get-text-property 0 'face (turnguard-mode-line))))
    (should (member '(:eval (turnguard-mode-line)) global-mode-string))))

(ert-deftest a-question-waits ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (let (decisions)
      (turnguard-ask "s" '(:turnId "t" :userMessage "Why.") (lambda (goes-on) (push goes-on decisions)))
      (should (string-search "Why." (tests-shown "s")))
      (should (equal (button-label (button-at (point))) "[Stop]"))
      ;; What is said and asked meanwhile does not take its place.
      (turnguard--show "s" "something else")
      (turnguard-ask "s" '(:turnId "u") #'ignore)
      (should (string-search "Why." (tests-shown "s")))
      (should (get-buffer-window "*turnguard: s*"))
      (should (null decisions))
      (kill-buffer "*turnguard: s*")
      (tests-until decisions)
      (should (equal decisions '(nil))))))

(ert-deftest a-warning-takes-no-focus ()
  (tests-with-daemon (tests-daemon)
    (let ((before (selected-window)))
      (turnguard--show "s" (make-string 500 ?x))
      (should (eq before (selected-window)))
      (should (get-buffer-window "*turnguard: s*"))
      (should (string-search (make-string 500 ?x) (tests-shown "s"))))))

(ert-deftest mode-line ()
  (tests-with-daemon (tests-daemon)
    (should (equal (turnguard-mode-line) " turnguard off"))
    (turnguard-mode)
    (should (equal (turnguard-mode-line) " turnguard"))
    (tests-record)
    (tests-until (equal (turnguard-mode-line) " turnguard 1/~100"))
    (turnguard-mode -1)
    (should (equal (turnguard-mode-line) " turnguard off"))
    (should-not (member '(:eval (turnguard-mode-line)) global-mode-string))
    (tests-until (null (process-list)))))

(ert-deftest settings ()
  (tests-with-daemon (tests-daemon)
    (let ((turnguard-settings '(:model (:maxToolCallsPerTurn 0))))
      (turnguard-start))
    (turnguard-open "s" :settings '(:model (:maxToolCallsPerTurn 1)))
    (should (equal (turnguard-admitted (tests-record) tests-batch) tests-batch))
    (let ((verdict (tests-record)))
      (should (turnguard-halted-p verdict))
      (should (equal (turnguard-admitted verdict tests-batch) [])))
    ;; Said once.
    (should (string-search "Stopped after 2 tool calls" (tests-shown "s")))
    (kill-buffer "*turnguard: s*")
    (should (turnguard-halted-p (tests-record)))
    (should (equal (tests-shown "s") ""))
    (should (null tests-told))
    (turnguard-close "s")
    (should-not (turnguard-halted-p (tests-record)))))

(ert-deftest wrong-settings ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (turnguard-open "s" :settings '(:model (:maxToolCallsPerTurn "many")))
    (tests-until (= 1 (tests-told "maxToolCallsPerTurn")))))

(ert-deftest wrong-events ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (let ((failure (should-error (turnguard-record "s" '(:type "no such event")))))
      (should (string-search "no such event" (error-message-string failure))))))

(ert-deftest missing ()
  (tests-with-daemon '("no-such-turnguard" "serve")
    (should (string-search "no-such-turnguard was not found" (error-message-string (should-error (turnguard-start)))))
    (should (equal (turnguard-admitted (tests-record) tests-batch) tests-batch))
    (should (= 1 (tests-told "calls run without the guard")))))

(ert-deftest other-protocol ()
  (tests-with-daemon (tests-broken "other-protocol")
    (let ((failure (should-error (turnguard-start))))
      (should (string-search "speaks protocol 2, turnguard.el speaks 1" (error-message-string failure))))
    (should (equal (turnguard-mode-line) " turnguard off"))
    (should-not (process-list))))

(ert-deftest no-protocol ()
  (tests-with-daemon (tests-broken "no-protocol")
    (should (string-search "is no daemon of turnguard" (error-message-string (should-error (turnguard-start)))))
    (should-not (process-list))))

(ert-deftest a-program-that-is-missing-ends-no-daemon ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (setq turnguard-command '("no-such-turnguard" "serve"))
    (should (string-search "(setq turnguard-command '(" (error-message-string (should-error (turnguard-start)))))
    (should (tests-record))))

(ert-deftest silent ()
  (tests-with-daemon (tests-broken "silent")
    (turnguard-start)
    (setq turnguard-patience (eval (car (get 'turnguard-patience 'standard-value))))
    (let ((begun (float-time)))
      (should (equal (turnguard-admitted (tests-record) tests-batch) tests-batch))
      (should (>= (- (float-time) begun) 0.24)))
    (let ((begun (float-time)))
      (should-not (tests-record))
      (should (< (- (float-time) begun) 0.24)))
    (should (= 1 (tests-told "calls run without the guard")))))

(ert-deftest ends ()
  (tests-with-daemon (tests-broken "ends")
    (turnguard-start)
    (should-not (tests-record))
    (should (equal (turnguard-mode-line) " turnguard off"))
    (should (= 1 (tests-told "M-x turnguard-start starts it again")))
    (should (= 1 (tests-told "calls run without the guard")))
    ;; What is started again knows the session as it was opened.
    (turnguard-open "s" :settings '(:model (:maxToolCallsPerTurn 1)))
    (setq turnguard-command (tests-daemon))
    (turnguard-start)
    (should-not (turnguard-halted-p (tests-record)))
    (should (turnguard-halted-p (tests-record)))))

(defun tests-ask (label)
  "Return what `turnguard-ask' makes of the answer LABEL, nil to close it."
  (let (decision)
    (turnguard-ask "s" '(:turnId "no such turn") (lambda (goes-on) (setq decision (list goes-on))))
    (tests-answer "s" label)
    (tests-until decision)
    (car decision)))

(ert-deftest goes-on-without-a-daemon ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (tests-record)
    (should (tests-ask "Continue once"))
    (should (= 1 (length tests-told)))
    (setq turnguard-command (tests-broken "silent") turnguard-patience 0.05)
    (turnguard-start)
    (should (tests-ask "Raise the cap"))
    (turnguard-stop)
    (should (tests-ask "Continue once"))
    (should-not (tests-ask "Stop"))
    (should-not (tests-ask nil))))

(ert-deftest killed ()
  (tests-with-daemon (tests-broken "silent")
    (turnguard-start)
    (should (process-list))
    (turnguard-stop)
    (tests-until (null (process-list)))))

(ert-deftest suspended ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (let ((process (jsonrpc--process turnguard--connection)))
      (signal-process process 'SIGSTOP)
      (tests-until (eq (process-status process) 'stop))
      (should (equal (turnguard-admitted (tests-record) tests-batch) tests-batch))
      (should (= 1 (tests-told "calls run without the guard")))
      (turnguard-stop)
      (tests-until (null (process-list))))))

(ert-deftest demo-keeps-the-daemon ()
  (tests-with-daemon (tests-daemon)
    (turnguard-mode)
    (let ((connection turnguard--connection))
      (turnguard-demo)
      (tests-until (get-buffer "*turnguard: demo*"))
      (should (eq connection turnguard--connection)))))

(ert-deftest the-demo-ends-with-its-buffer ()
  (tests-with-daemon '("no-such-turnguard" "serve")
    (cl-letf (((symbol-function 'turnguard-mode) #'ignore))
      (turnguard-demo)
      (tests-until (with-current-buffer "*turnguard demo*" (string-search "reads a.el" (buffer-string))))
      (kill-buffer "*turnguard demo*")
      (tests-until (null timer-list)))))

(ert-deftest never-starts ()
  (tests-with-daemon (tests-broken "deaf")
    (let ((turnguard-start-seconds 0.2))
      (should (string-search "no answer for 0.2 seconds" (error-message-string (should-error (turnguard-start))))))
    (tests-until (null (process-list)))))

(ert-deftest ends-at-once ()
  (tests-with-daemon (append (tests-daemon) '("--set" "no.such=1"))
    (let ((failure (error-message-string (should-error (turnguard-start)))))
      (should (string-search "it ended at once: " failure))
      (should (string-search "no.such" failure)))))

(ert-deftest wrong-settings-of-the-person ()
  (tests-with-daemon (tests-daemon)
    (let ((turnguard-settings '(:model (:maxToolCallsPerTurn "many"))))
      (should (string-search "maxToolCallsPerTurn" (error-message-string (should-error (turnguard-start))))))))

(ert-deftest no-trace ()
  (tests-with-daemon (tests-daemon)
    (turnguard-start)
    (turnguard-record "s" '(:type "toolCalls" :calls [(:name "read_file" :args (:path "CANARY"))]))
    (ignore-errors (turnguard-record "s" '(:type "toolCalls" :calls [(:name 5 :args (:path "CANARY"))])))
    (dolist (buffer (buffer-list))
      (with-current-buffer buffer
        (should-not (string-search "CANARY" (buffer-string)))))))

;;; emacs-tests.el ends here
