"""The service, room by room, in this process."""
