"""Text that somebody else chose, made safe to show: a name, an argument, what a repository wrote."""


def harmless(text: str) -> str:
    """A text in which everything that is not seen, or that changes how the rest is seen, stands as an escape.

    Nothing in it can steer a terminal, reorder what stands around it or hide.
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
