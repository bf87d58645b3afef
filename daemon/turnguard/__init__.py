"""turnguard tells a productive long agent turn from a stuck one, and stops the stuck one."""

__version__ = "0.1.0"
