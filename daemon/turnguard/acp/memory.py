"""Memory that is needed for each line stays with the process.

What glibc was asked for in one large piece it gives back to the system as soon as it is freed, and the system hands it
over anew, page by page, for the next line: for a short one that costs several times as much as all else that is done
for it. Once such a piece was freed glibc keeps what is smaller, and twice as much of it in all.
"""

KEPT_BYTES = 4 * 1024 * 1024
"""More than what is read at once, and than a result of which all is looked at takes in any form."""


def keep_freed_memory() -> None:
    """Has freed memory of up to twice `KEPT_BYTES` kept. Nothing comes of it where there is no glibc."""
    bytes(KEPT_BYTES)
