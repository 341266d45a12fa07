# Fills the place that the argument names, in files of a few megabytes: how it was refused, and after how many megabytes.
place, written, answer = sys.argv[1], 0, "done"
block = b"\xa5" * (1 << 20)
while answer == "done" and written < 200:
    with open(f"{place}/fill{written // 8}", "ab", buffering=0) as file:
        def write():
            global written
            if file.write(block) == len(block):
                written += 1
        answer = error_of(write)
        if answer == "done" and os.fstat(file.fileno()).st_size % (1 << 20):
            answer = error_of(lambda: file.write(block))
print(answer, written)
