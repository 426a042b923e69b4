"""The lock of the machine."""

import errno

import pytest

from noisefloor.measure import lock


def test_a_machine_that_cannot_be_locked_says_so_and_does_not_wait(monkeypatch, tmp_path):
    def refuses(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(lock, "NAME", f"\0{tmp_path}")
    monkeypatch.setattr(lock.fcntl, "flock", refuses)
    with pytest.raises(PermissionError), lock.alone():
        pass
