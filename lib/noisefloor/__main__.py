"""``python -m noisefloor``: the command."""

from noisefloor.cli import main

if __name__ == "__main__":
    main(prog_name="noisefloor")
