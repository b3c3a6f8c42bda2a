"""`python -m tests.contract.reference` writes the pages again."""

from tests.contract.reference.pages import write

if __name__ == "__main__":
    write()
