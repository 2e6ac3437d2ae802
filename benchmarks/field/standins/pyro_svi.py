"""Stand-in for Pyro's svi_torch example: nothing, the script makes its own points."""


def main() -> None:
    """Make nothing."""


if __name__ == "__main__":
    main()
