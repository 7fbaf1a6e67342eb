"""`python -m bayescrowd`: the command line."""

from bayescrowd.cli import main

if __name__ == "__main__":
    main(prog_name="bayescrowd")
