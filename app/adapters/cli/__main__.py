"""``python -m app.adapters.cli`` is the command `postbayes`."""

from app.adapters.cli.entry import main

# An evaluation starts processes, and each of them imports this file.
if __name__ == "__main__":
    main()
