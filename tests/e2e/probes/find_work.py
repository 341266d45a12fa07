# Finds what leave_work.py left, and nothing else.
import os, stat
file = '/home/user/deep/er/file'
found = os.lstat(file)
assert open(file).read() == 'work\n'
assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o4751), found
assert found.st_nlink == 2 and os.lstat('/home/user/second name').st_ino == found.st_ino
assert os.getxattr(file, 'user.note') == b'\x00kept'
assert os.readlink('/home/user/link') == '/nowhere/at all'
assert stat.S_ISFIFO(os.lstat('/home/user/fifo').st_mode)
assert open('/etc/profile').read().endswith('# changed\n')
assert not os.path.lexists('/etc/services') and not os.path.lexists('/usr/bin/env')
assert os.listdir('/etc/alternatives') == ['only'], os.listdir('/etc/alternatives')
assert os.stat('/home/user/deep').st_mtime == 1
assert os.listdir('/dev/shm') == [] and os.listdir('/run') == ['warren'], 'memory is not kept'
print('ok')
