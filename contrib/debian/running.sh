# Functions of the package's scripts: which volumes are served, and by which program. Part of each of them.

# The words of a process's command line, one a line.
words() {
  tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null
}

# Processes that serve volumes with the installed program, by number; "old" if its file was replaced since.
# In a chroot /proc may show processes whose files are elsewhere: readlink then names another path.
servers() {
  for exe in /proc/[0-9]*/exe; do
    pid=${exe#/proc/} pid=${pid%/exe}
    case $(readlink "$exe" 2>/dev/null) in
      /usr/bin/entresol) state=new ;;
      "/usr/bin/entresol"*" (deleted)") state=old ;;
      *) continue ;;
    esac
    if words "$pid" | grep -qx serve; then
      echo "$pid $state"
    fi
  done
}

# The configurations that process $1 serves, by absolute path.
volumes() {
  words "$1" | grep '\.toml$' | while read -r file; do
    case $file in
      /*) echo "$file" ;;
      *) echo "$(readlink "/proc/$1/cwd")/$file" ;;
    esac
  done
}

# The unit of process $1, if it has one.
unit() {
  sed -n 's|.*/\(entresol@[^/]*\.service\)$|\1|p' "/proc/$1/cgroup" 2>/dev/null | head -n 1
}
