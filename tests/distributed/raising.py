"""A program with a rank that raises while the others wait for it."""

from burnpy.distributed import Group


def main() -> None:
    group = Group.world(timeout=60)
    if group.rank == 1:
        raise ValueError("the data of this rank are spoilt")
    group.barrier()
    print("went on")


if __name__ == "__main__":
    main()
