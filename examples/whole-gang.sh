#!/bin/sh
# What kube-scheduler does with the six pods of demo/case1, by curl: filter, then bind where filter said, a pod a second.
# The first five binds are held; the sixth completes the gang and all six are answered together. Of a gang that runs each
# is confirmed at once. As curl its calls would only be a look.
set -eu
agent=Go-http-client/1.1
url=${1:-http://127.0.0.1:8888}
cd "$(dirname "$0")/requests"

say() { echo "$(date +%T) $*"; }

# The node that filter plans for pod case1-$1. A refused pod is tried again, as kube-scheduler does: a gang whose last
# admission lapsed backs off for 10 s.
filter() {
  for attempt in 1 2 3 4 5 6 7 8; do
    answer=$(sed "s/case1-0/case1-$1/g" filter-case1.json | curl -sS -A "$agent" "$url/filter" -d @-)
    node=$(echo "$answer" | sed -n 's/.*"NodeNames": *\["\([^"]*\)"\].*/\1/p')
    [ -n "$node" ] && echo "$node" && return
    say "case1-$1: refused ($attempt): $(echo "$answer" | grep -o 'netgang: [^"]*' | head -n 1)" >&2
    sleep 2
  done
  return 1
}

for index in 0 1 2 3 4 5; do
  node=$(filter "$index")
  say "case1-$index: filter says $node"
  (
    answer=$(sed "s/case1-0/case1-$index/g; s/node28/$node/" bind-case1.json | curl -sS -A "$agent" "$url/bind" -d @-)
    say "case1-$index: bind to $node answered $answer"
  ) &
  sleep 1
done
wait
