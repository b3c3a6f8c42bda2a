// Command goecho is the least a Go extender can do: decode the real types, pass every node, score each 5.
//
// The benchmark measures netgang against it. Replies carry Content-Length, so that the client's reading is the same.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"

	extender "k8s.io/kube-scheduler/extender/v1"
)

func answer(decide func(*extender.ExtenderArgs) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port) // the parent reads this line
	http.HandleFunc("POST /filter", answer(filter))
	http.HandleFunc("POST /prioritize", answer(prioritize))
	log.Fatal(http.Serve(listener, nil))
}
