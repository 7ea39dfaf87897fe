"""A program that asks for `Elastic` under a launcher that was not told of it."""

from burnpy.distributed import Elastic, Group

if __name__ == "__main__":
    Elastic(Group.world(timeout=60))
