"""``python -m noisefloor``: the command line."""

from noisefloor.cli import main

if __name__ == "__main__":
    main(prog_name="noisefloor")
