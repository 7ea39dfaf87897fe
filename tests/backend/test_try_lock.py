"""`TryLock`: one owner at a time, among threads too, and none that an exception has dropped."""

from __future__ import annotations

import threading

from burnpy.backend import try_lock
from burnpy.backend.try_lock import TryLock
from tests.interrupting import Interruption, every_opcode, interrupt


class Owner:
    pass


def test_one_owner_at_a_time() -> None:
    lock, holders, most = TryLock[Owner](), list[int](), list[int]()

    def work() -> None:
        owner, count = Owner(), 0
        while count < 200:
            try:
                if lock.acquire(owner):
                    holders.append(1)
                    most.append(len(holders))
                    holders.pop()
                    count += 1
            finally:
                lock.release(owner)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(most) == 600
    assert max(most) == 1
    assert lock.owner() is None


def test_no_exception_anywhere_leaves_it_taken_or_takes_it_from_another() -> None:
    lock, other = TryLock[Owner](), Owner()

    def taken() -> None:
        owner = Owner()
        try:
            lock.acquire(owner)
        finally:
            lock.release(owner)

    for raised in every_opcode(taken, (try_lock,), interrupt):
        assert isinstance(raised, Interruption)
        assert lock.owner() is None
    assert lock.acquire(other)
    for _ in every_opcode(taken, (try_lock,), interrupt):
        assert lock.owner() is other
