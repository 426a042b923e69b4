"""How far a campaign is, and how long it still takes."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisefloor.measure.folder import Folder

Say = Callable[[str], None]  # takes a line


def minutes(seconds: float) -> str:
    """Seconds as ``minutes:seconds``."""
    whole, rest = divmod(round(seconds), 60)
    return f"{whole}:{rest:02}"


class Progress:
    """A bar in a terminal, one changing line in Jupyter, else a new line every ten seconds."""

    def __init__(self) -> None:
        self._bar: Any = None  # tqdm's
        self._display: Any = None  # IPython's
        self._next = 0.0
        notebook = sys.modules.get("IPython")  # which a library may have imported outside of one
        if notebook and notebook.get_ipython():
            show = notebook.display.display
            self._display = show({"text/plain": "measuring"}, raw=True, display_id=True)

    def say(self, text: str) -> None:
        """Show one line."""
        if self._display:
            self._display.update({"text/plain": text}, raw=True)
        elif self._bar:
            self._bar.write(text, file=sys.stderr)
        else:
            print(f"noisefloor: {text}", file=sys.stderr, flush=True)

    def show(self, campaign: "Folder", doing: str) -> None:
        """Show where the campaign is: block, what it is `doing`, time left at most. It shows no
        result so far, so that nobody stops because of one."""
        now, spent = time.monotonic(), campaign.meta["spent_s"]
        left = max(campaign.left_s, 0.0)
        if now < self._next:
            return
        text = f"block {campaign.block + 1} of {len(campaign.turns)}, {doing}"
        plain = not (self._display or sys.stderr.isatty())
        self._next = now + (10 if plain else 1)
        if self._display or plain:
            return self.say(f"{text}; {minutes(left)} left")
        if self._bar is None:
            from tqdm import tqdm

            bar = "{desc} {percentage:3.0f} %|{bar}| {postfix}"
            self._bar = tqdm(total=1.0, bar_format=bar, leave=False, desc=campaign.study.name)
        self._bar.n = min(spent / (spent + left + 1e-9), 1.0)
        self._bar.set_postfix_str(f"{minutes(left)} left; {text}")

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def finish(self, text: str) -> None:
        """Remove the bar and show the last line."""
        self.end()
        self.say(text)
