"""``python -m app.adapters.cli`` is the command `postbayes`."""

from app.adapters.cli.main import main

main()
