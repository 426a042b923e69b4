"""One measurement at a time on a machine."""

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator

NAME, FOLDER = "\0noisefloor-measuring", "/"  # of a socket, and what is locked


@contextlib.contextmanager
def alone(say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Lock the machine: a second campaign waits here until the first one ends or is killed."""
    # the name of a socket is seen in every chroot, the folder from every network namespace
    with socket.socket(socket.AF_UNIX) as name, contextlib.ExitStack() as stack:
        root = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, root)
        waited = False
        holds: tuple[Callable[[], None], ...] = (
            lambda: name.bind(NAME),
            lambda: fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB),
        )
        for hold in holds:
            while True:
                try:
                    hold()
                    break
                except OSError as e:
                    if e.errno not in (errno.EADDRINUSE, errno.EWOULDBLOCK):
                        raise  # nobody would end what it waits for
                    if not waited:
                        say("another campaign is measuring on this machine; waiting for it to end")
                    waited = True
                    time.sleep(0.5)
        yield
