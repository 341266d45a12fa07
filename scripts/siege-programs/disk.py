# Writes files, forces them to the disk, makes many and removes them.
import os, shutil

os.chdir(os.path.expanduser("~"))
while True:
    try:
        for number in range(8):
            with open(f"large-{number}", "wb") as file:
                file.write(os.urandom(1 << 20) * 8)
                os.fsync(file.fileno())
        os.makedirs("many", exist_ok=True)
        for number in range(2000):
            open(f"many/{number}", "w").close()
        shutil.rmtree("many")
    except OSError:
        pass
