"""All global variables of a server, in the form of a campaign's folder."""

import hashlib
import json
import re
import socket
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.data import tidy
from noisefloor.measure.folder import write_json


def stored(server: Any, folder: Path, *, guest: bool) -> dict[str, str]:
    """{"file": name}: the file in `folder` with the variables of a Server or a Guest, one file per
    content, without the names of this machine; a run's file points to it. `guest`: a server that
    Noisefloor did not start; variables with its names are left out."""
    values = server.variables()
    if guest:
        values = {k: v for k, v in values.items() if not tidy.names_machine(k)}
    text = json.dumps(values, indent=0, sort_keys=True)
    places = (server.folder, server.folder.parent, paths.engines(), paths.root())
    for private, shown in zip(places, ("server", "server", "engines", "project"), strict=True):
        for path in (private, private.resolve()):  # a link leads to another name of it
            text = text.replace(str(path), f"<{shown}>")
    text = server.nameless(text) if guest else text.replace(str(server.socket), "<socket>")
    if (where := server.settings.get("bind_address", "127.0.0.1")) != "127.0.0.1":
        text = text.replace(where, "<address>")
    text = re.sub(rf"(?<!\w){re.escape(socket.gethostname())}(?!\w)", "<host>", text)
    name = f"variables-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    if not (folder / name).exists():
        write_json(folder / name, json.loads(text))
    return {"file": name}
