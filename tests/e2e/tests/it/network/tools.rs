//! Everyday uses of a network: installing, cloning.

use warren_e2e::{Internet, TestEnv};

use super::{create, finish, serve};

/// Makes what a package index, an npm registry and a git server have in their files.
fn publish(internet: &Internet) {
    let place = internet.path("files").display().to_string();
    let script = format!(
        r#"set -e
mkdir -p {place}/simple/tinything {place}/npm {place}/git /tmp/none 2>/dev/null
cd {place}
python3 - <<'PY'
import base64, hashlib, zipfile
name = "simple/tinything/tinything-1.0-py3-none-any.whl"
files = {{
    "tinything.py": "ANSWER = 42\n",
    "tinything-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n",
    "tinything-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}}
record = "".join(f"{{path}},sha256={{base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()}},{{len(text)}}\n" for path, text in files.items())
files["tinything-1.0.dist-info/RECORD"] = record + "tinything-1.0.dist-info/RECORD,,\n"
with zipfile.ZipFile(name, "w") as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
open("simple/tinything/index.html", "w").write('<a href="tinything-1.0-py3-none-any.whl">tinything-1.0-py3-none-any.whl</a>')
PY
mkdir -p package
printf '{{"name":"tinything","version":"1.0.0","main":"index.js"}}' > package/package.json
printf 'module.exports = 42\n' > package/index.js
tar czf npm/tinything-1.0.0.tgz package
sum=$(sha512sum npm/tinything-1.0.0.tgz | cut -d' ' -f1 | python3 -c 'import base64,sys; print(base64.b64encode(bytes.fromhex(sys.stdin.read().strip())).decode())')
printf '{{"name":"tinything","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"tinything","version":"1.0.0","dist":{{"integrity":"sha512-%s","tarball":"http://web.test/npm/tinything-1.0.0.tgz"}}}}}}}}' "$sum" > npm/tinything
git -c init.defaultBranch=main init -q source
cd source
echo hello > README
git add README
git -c user.name=t -c user.email=t@web.test commit -qm first
cd ..
git clone -q --bare source git/thing.git
cd git/thing.git && git update-server-info
"#
    );
    let output =
        std::process::Command::new("bash").args(["-c", &script]).output().expect("a shell can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn pip_npm_and_git_work_under_a_list_and_in_the_open() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    std::fs::create_dir_all(internet.path("files")).unwrap();
    publish(&internet);
    let server = serve(&env, &internet);
    for flags in [&["--net", "allow", "--allow", "web.test"][..], &["--net", "public"]] {
        let id = create(&server, flags);
        let pip = "cd && python3 -m venv v && v/bin/pip install -q --disable-pip-version-check --index-url http://web.test/simple --trusted-host web.test tinything \
                   && v/bin/python -c 'import tinything; print(tinything.ANSWER)'";
        assert_eq!(server.shell(&id, pip), "42");
        let npm = "mkdir -p ~/n && cd ~/n && npm install --silent --no-audit --no-fund --registry http://web.test/npm tinything >/dev/null && node -e 'console.log(require(\"tinything\"))'";
        assert_eq!(server.shell(&id, npm), "42");
        assert_eq!(
            server.shell(&id, "cd && git clone -q http://web.test/git/thing.git && cat thing/README"),
            "hello"
        );
    }
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}
