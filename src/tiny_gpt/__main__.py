"""``python -m tiny_gpt``, the same as ``tiny-gpt``."""

from .cli import main

if __name__ == "__main__":
    main()
