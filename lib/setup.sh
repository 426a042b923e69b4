#!/bin/bash
# Sets up what is missing: system packages (apt.txt), Python packages (.venv), the server build
# (.engines). A second call finds its stamp and does nothing. Further lists of system packages can
# be named: lib/setup.sh tests/apt.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p .setup
exec 9>.setup/lock
flock 9 # two set-ups at once would write into the same .venv

say() { echo "set-up: $*" >&2; }
stop() { say "$*" && exit 1; }
# runs a command quietly; its output is shown only when it fails
quiet() { "$@" >.setup/log 2>&1 || { tail -n 20 .setup/log >&2; return 1; }; }

python=${PYTHON:-python3}
lists=(apt.txt "$@") stamped=.setup/stamp${1:+-more}
stamp=$(cat "${lists[@]}" requirements.txt pyproject.toml lib/setup.sh lib/noisefloor/servers/engines/engines.toml \
  <(pwd; command -v "$python") | sha256sum)
if [[ -x .venv/bin/noisefloor && -d .engines && $(cat "$stamped" 2>/dev/null) == "$stamp" ]]; then exit 0; fi

# 1. system packages
command -v dpkg-query >/dev/null ||
  stop "this machine has no apt; use conda instead: conda env create -f environment.yml"
installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }
missing=()
while read -r package; do
  installed "$package" || missing+=("$package")
done < <(grep -hv '^#' "${lists[@]}")
# leave_out PACKAGES OTHERS WHY: packages that would replace others, where these are installed
leave_out() {
  { dpkg-query -W -f '${db:Status-Status}\n' $2 2>/dev/null || true; } | grep -qx installed || return 0
  printf '%s\n' "${missing[@]}" | grep -q "^$1" || return 0
  say "leaving $1 out: it would replace $3"
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -v "^$1" || true)
}
set -f # the patterns below are dpkg's
leave_out mariadb- 'mysql-server-core* mysql-client-core*' "the MySQL that is installed here"
leave_out libmariadb-dev libmysqlclient-dev "libmysqlclient-dev, which does as well"
set +f
if ((${#missing[@]})); then
  root=()
  if ((EUID)); then
    command -v sudo >/dev/null || stop "these packages are missing: ${missing[*]}; as root: apt-get install ${missing[*]}"
    root=(sudo)
  fi
  apt() { quiet "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy -o DPkg::Lock::Timeout=300 "$@"; }
  drop_unknown() { # Ubuntu has no chromium and linux-perf; what needs them says so
    local package known=()
    for package in "${missing[@]}"; do
      if apt-cache show "$package" >/dev/null 2>&1; then known+=("$package"); else say "this system has no $package"; fi
    done
    missing=("${known[@]}")
  }
  say "installing system packages: ${missing[*]}"
  apt install --no-install-recommends --no-remove "${missing[@]}" 2>/dev/null ||
    { say "updating the package lists" && apt update && drop_unknown && apt install --no-install-recommends --no-remove "${missing[@]}"; } ||
    stop "the system packages could not be installed; try: ${root[*]:+sudo }apt-get install ${missing[*]}"
fi

# 2. Python packages
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  stop "$python is $("$python" -V); Python 3.11 or newer is needed: make setup PYTHON=..."
export UV_SYSTEM_CERTS=1 UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1
[[ -z ${SSL_CERT_FILE-} ]] || export PIP_CERT=${PIP_CERT:-$SSL_CERT_FILE}
.venv/bin/python -c '' 2>/dev/null || { rm -rf .venv && "$python" -m venv .venv; }
if [[ ! -x .venv/bin/uv ]]; then
  sed -n '/^uv==/,/[^\\]$/p' requirements.txt >.setup/uv.txt
  quiet .venv/bin/python -m pip install --no-deps --require-hashes -r .setup/uv.txt ||
    stop "uv could not be installed into .venv (see above)"
fi
say "Python packages into .venv (a minute when nothing is cached)"
export VIRTUAL_ENV=$PWD/.venv
quiet .venv/bin/uv pip sync --require-hashes --build-constraints requirements.txt requirements.txt ||
  stop "the Python packages could not be installed (see above)"
quiet .venv/bin/uv pip install --no-deps --no-build-isolation -e . ||
  stop "the package itself could not be installed (see above)"

# 3. the server
.venv/bin/python -m noisefloor.servers.engines || exit 1
echo "$stamp" >"$stamped"
say "done in $SECONDS s"
