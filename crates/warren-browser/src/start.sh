# Runs Chromium and the server of its tools until this script is killed. Whichever of them ends is
# started again. $1 is the port of Chromium's developer tools, $2 that of the server.
tools=/usr/local/lib/warren-browser/node_modules/@playwright/mcp/cli.js
for program in chromium-headless-shell node; do
    command -v "$program" >/dev/null || { echo "there is no $program in it" >&2; exit 1; }
done
[ -e "$tools" ] || { echo "there is no server of Playwright's tools in it" >&2; exit 1; }
[ -w "${HOME:-}" ] || HOME=$(mktemp -d) || exit 1
export HOME
cd "$HOME" || exit 1
profile=$HOME/.browser
mkdir -p "$HOME/.playwright-mcp"

# The server of tools leaves downloads to the browser, which without a window takes none.
cat >/tmp/.browser-page.mjs <<'END'
export default async ({ page }) => {
  const browser = page.context().browser();
  if (!browser || browser.warren) return;
  browser.warren = await browser.newBrowserCDPSession();
  const downloadPath = process.env.HOME + '/Downloads';
  await browser.warren.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath });
};
END

# Everything that can be fetched again stays out of the files that are kept for every change.
(
    while :; do
        rm -f "$profile"/Singleton*
        chromium-headless-shell --no-sandbox --remote-debugging-address=127.0.0.1 \
            --remote-debugging-port="$1" --user-data-dir="$profile" --disk-cache-dir=/tmp/.browser-cache \
            --window-size=1280,720 --allow-pre-commit-input --disable-gpu --no-first-run --disable-background-networking \
            --disable-component-update --disable-breakpad --disable-gpu-shader-disk-cache \
            --hide-scrollbars about:blank </dev/null >/tmp/.browser.log 2>&1
        sleep 0.2
    done
) &
while :; do
    node "$tools" --host 127.0.0.1 --port "$2" --cdp-endpoint "http://127.0.0.1:$1" --shared-browser-context \
        --output-dir "$HOME/.playwright-mcp" --output-max-size 67108864 --file-paths absolute --codegen none \
        --no-webmcp --init-page /tmp/.browser-page.mjs --timeout-navigation 40000 </dev/null >/tmp/.browser-tools.log 2>&1
    sleep 0.2
done
