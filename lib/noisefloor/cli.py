"""The command line: parses and calls, nothing else. Imports stay inside the commands."""

import click


class Sentence(click.ClickException):
    """A user's mistake or a measurement that could not be made: one sentence, no traceback."""

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(" ".join(str(message).split()))
        self.exit_code = exit_code

    def show(self, file=None):
        click.echo(f"noisefloor: {self.message}", err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="noisefloor")
def main():
    """What a change to a MySQL-family server really costs, with the evidence, and 'cannot tell'
    when the difference is noise."""
