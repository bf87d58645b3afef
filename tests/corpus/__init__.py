"""Real agent turns, played through a running daemon: which guard halts what, and where."""
