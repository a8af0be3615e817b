"""Where the supervisor is executed by its path: tiny, because such a file is compiled anew at every start."""

if __name__ == "__main__":
    import os
    import sys

    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

    from lavender_tui.launch.supervisor import main

    sys.exit(main(sys.argv[1:]))
