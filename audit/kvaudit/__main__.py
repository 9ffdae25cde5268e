"""`python -m kvaudit`."""

from kvaudit.cli import main

if __name__ == "__main__":
    main()
