// Command goecho is the least a Go extender can do: decode the real types, pass every node, score each 5.
//
// The benchmark measures netgang against it. Replies carry Content-Length, so that the client's reading is the same.
// It listens on the address of its argument, or on a free port of the loopback, and tells at /calls how often it was
// asked.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"

	extender "k8s.io/kube-scheduler/extender/v1"
)

func answer(calls *atomic.Int64, decide func(*extender.ExtenderArgs) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var args extender.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, err := json.Marshal(decide(&args))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

func filter(args *extender.ExtenderArgs) any {
	return extender.ExtenderFilterResult{NodeNames: args.NodeNames}
}

func prioritize(args *extender.ExtenderArgs) any {
	scores := make(extender.HostPriorityList, 0, len(*args.NodeNames))
	for _, name := range *args.NodeNames {
		scores = append(scores, extender.HostPriority{Host: name, Score: 5})
	}
	return scores
}

func main() {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port) // the parent reads this line
	var filters, prioritizes atomic.Int64
	http.HandleFunc("POST /filter", answer(&filters, filter))
	http.HandleFunc("POST /prioritize", answer(&prioritizes, prioritize))
	http.HandleFunc("GET /calls", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]int64{"filter": filters.Load(), "prioritize": prioritizes.Load()})
	})
	log.Fatal(http.Serve(listener, nil))
}
