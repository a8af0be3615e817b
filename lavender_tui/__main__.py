"""`python -m lavender_tui` is `lavender-tui`."""

from lavender_tui.cli import main

if __name__ == "__main__":
    main()
