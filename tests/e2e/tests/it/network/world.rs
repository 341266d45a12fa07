//! The tests' own Internet: that it lets everything through and sees everything, or none of the
//! other tests means anything.

use warren_e2e::{Internet, TestEnv};

#[test]
fn the_tests_internet_answers_everywhere_and_notices_everything() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let page = internet.shell("curl -s -m 5 http://198.51.100.10/hello");
    assert!(page.contains("\"/hello\""), "{page}");
    internet.shell("curl -s -m 5 --cacert /dev/null -k https://198.51.100.20/");
    internet.shell("curl -s -m 5 http://10.7.7.7/ || true; curl -s -m 5 http://169.254.169.254/ || true");
    internet.shell("curl -s -m 5 'http://[2001:db8:1::10]/'");
    let asked = internet.shell(
        "python3 -c 'import socket,struct; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(5); \
         s.sendto(struct.pack(\"!6H\",7,256,1,0,0,0)+b\"\\x03web\\x04test\\0\\0\\1\\0\\1\",(\"192.0.2.53\",53)); print(s.recv(512)[-4:].hex())'",
    );
    assert_eq!(asked, "c633640a");
    let kinds: Vec<String> = internet.contacts().into_iter().map(|contact| contact.kind).collect();
    assert_eq!(kinds, ["http", "https", "trap", "trap", "http", "dns"]);
    let to: Vec<String> = internet.packets().into_iter().map(|packet| packet.to).collect();
    for address in
        ["198.51.100.10", "198.51.100.20", "10.7.7.7", "169.254.169.254", "2001:db8:1::10", "192.0.2.53"]
    {
        assert!(to.iter().any(|to| to == address), "{address} is missing in {to:?}");
    }
    internet.assert_clean();
}
