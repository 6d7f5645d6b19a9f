# Runs the attempts, or only those that were selected.

selected = target.get("only", [name for name, _ in attempts])
unknown = set(selected) - {name for name, _ in attempts}
if unknown:
    sys.exit("no attempts are named %s" % sorted(unknown))

for name, function in attempts:
    if name not in selected:
        continue
    # A process of its own, so that no attempt changes the next.
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, code = os.waitpid(child, 0)
        if code & 0x7f:
            print("%s\theld\tsignal %d" % (name, code & 0x7f))
        continue
    try:
        print("%s\tESCAPED\t%s" % (name, function()))
    except Denied as why:
        print("%s\theld\t%s" % (name, why))
    except OSError as why:
        print("%s\theld\t%s" % (name, errno.errorcode.get(why.errno, why)))
    except Exception as why:
        print("%s\tBROKEN\t%r" % (name, why))
    sys.stdout.flush()
    os._exit(0)
