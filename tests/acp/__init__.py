"""The ACP proxy, room by room, in this process; lines are handed to it and the clock is made by hand."""
