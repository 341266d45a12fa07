# Leaves every kind of change that a layer can hold.
import os, stat
os.makedirs('/home/user/deep/er')
with open('/home/user/deep/er/file', 'w') as f:
    f.write('work\n')
os.chown('/home/user/deep/er/file', 1234, 4321)
os.chmod('/home/user/deep/er/file', 0o4751)
os.symlink('/nowhere/at all', '/home/user/link')
os.link('/home/user/deep/er/file', '/home/user/second name')
os.mkfifo('/home/user/fifo')
os.setxattr('/home/user/deep/er/file', 'user.note', b'\x00kept')
with open('/etc/profile', 'a') as f:
    f.write('# changed\n')
os.unlink('/etc/services')
for name in os.listdir('/etc/alternatives'):
    os.unlink('/etc/alternatives/' + name)
os.rmdir('/etc/alternatives')
os.mkdir('/etc/alternatives')
open('/etc/alternatives/only', 'w').close()
os.unlink('/usr/bin/env')
os.utime('/home/user/deep', (1, 1))
print('ok')
