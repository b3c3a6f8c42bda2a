{{/* "true" where netgang brings a kube-scheduler of its own, else "". */}}
{{- define "netgang.second" -}}
{{- if eq .Values.mode "second-scheduler" }}true{{ end -}}
{{- end }}

{{/* "true" where there are certificates, and where reports are taken: the probe needs both, and brings them along. */}}
{{- define "netgang.tls" -}}
{{- if or .Values.tls.enabled .Values.probe.enabled }}true{{ end -}}
{{- end }}
{{- define "netgang.reports" -}}
{{- if or .Values.reports.enabled .Values.probe.enabled }}true{{ end -}}
{{- end }}

{{/* When the certificates that the chart makes for itself were made, Unix seconds: those that are there, or now if there are
none or four of their five years are over. "": people's own, or no cluster, where each rendering would have others. */}}
{{- define "netgang.certificatesMade" -}}
{{- $own := and .Values.probe.enabled (not .Values.tls.enabled) (lookup "v1" "Namespace" "" "kube-system") -}}
{{- if not (hasKey .Values "renderedAt") }}{{ $_ := set .Values "renderedAt" (now | unixEpoch | int64) }}{{ end -}}
{{- $now := .Values.renderedAt -}} {{- /* the templates of a rendering share their values */}}
{{- $made := $now -}}
{{- range list "netgang-scheduler-tls" "netgang-tls" -}}
{{- $secret := lookup "v1" "Secret" $.Release.Namespace . -}}
{{- if and $secret (not (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $secret)) -}}{{- $own = false -}}{{- end -}}
{{- $made = min $made (dig "data" "made" "" $secret | b64dec | int64) -}}
{{- end -}}
{{- if $own -}}
{{- ternary $made $now (gt $made (sub $now 126144000)) -}}
{{- end -}}
{{- end }}

{{/* netgang's settings: those of the mode and of what is switched on, and what the values say on top. */}}
{{- define "netgang.settings" -}}
{{- mergeOverwrite (include "netgang.ownSettings" . | fromYaml) (deepCopy .Values.settings) | toYaml -}}
{{- end }}
{{- define "netgang.ownSettings" -}}
host: 0.0.0.0 # the NetworkPolicy lets only kube-scheduler in
port: 8888
debug_port: 8889 # for people, on the pod's loopback: `kubectl port-forward` comes out there, and nothing else does
{{- if .Values.documentsFrom }}
debug_host: 0.0.0.0 # the NetworkPolicy lets only the API server in
debug_open: true
{{- end }}
log_format: json
leader_election: "on" # of the replicas one acts
network: {sources: []}
{{- if include "netgang.second" . }}
scheduler_names: [netgang]
hold_limit_s: 25
http_timeout_s: 60 # httpTimeout of the bind entry
{{- else }}
scheduler_names: [default-scheduler]
extender: false # only gangs of Kubernetes' own whose pods have the gate netgang.io/gang; all other pods are load
{{- end }}
{{- if include "netgang.tls" . }}
tls:
  cert_file: /etc/netgang-tls/tls.crt
  key_file: /etc/netgang-tls/tls.key
  client_ca_file: /etc/netgang-tls/ca.crt
  client_names: [netgang-scheduler]
{{- end }}
{{- if or (include "netgang.tls" .) .Values.monitoring.enabled }}
health_port: 8890 # probes and Prometheus show no client certificate
{{- end }}
{{- if include "netgang.reports" . }}
reports: {port: 8891}
{{- end }}
{{- if .Values.probe.enabled }}
probe:
  enabled: true
  throughput: {enabled: {{ .Values.probe.throughput }}}
{{- end }}
{{- end }}

{{/* The second kube-scheduler's configuration, as the settings and certificates want it. Without either it is
scheduler-config/second-scheduler.yaml, which says why; a test compares the two. */}}
{{- define "netgang.schedulerConfig" -}}
{{- $settings := include "netgang.settings" . | fromYaml -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
leaderElection:
  leaderElect: true
  resourceName: netgang-scheduler
  resourceNamespace: {{ .Release.Namespace }}
profiles:
{{- range $settings.scheduler_names }}
- schedulerName: {{ . }}
  plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}
{{- end }}
extenders:
{{- range list (dict "filterVerb" "filter" "prioritizeVerb" "prioritize" "weight" 12 "httpTimeout" "2s") (dict "bindVerb" "bind" "httpTimeout" (printf "%vs" $settings.http_timeout_s)) }}
- urlPrefix: {{ ternary "https" "http" (eq (include "netgang.tls" $) "true") }}://netgang.{{ $.Release.Namespace }}.svc:{{ $settings.port }}
  {{- toYaml . | nindent 2 }}
  {{- if include "netgang.tls" $ }}
  enableHTTPS: true
  tlsConfig: {{/* read once, when kube-scheduler starts; without caFile the check of netgang's certificate is off */}}
    certFile: /etc/netgang-scheduler-tls/tls.crt
    keyFile: /etc/netgang-scheduler-tls/tls.key
    caFile: /etc/netgang-scheduler-tls/ca.crt
    serverName: netgang.{{ $.Release.Namespace }}.svc
  {{- end }}
  nodeCacheCapable: true
  ignorable: false
{{- end }}
{{- end }}

{{/* The image of netgang. */}}
{{- define "netgang.image" -}}
{{- $repository := required "image.repository: say where you pushed netgang's image, such as --set image.repository=registry.example.org/netgang" .Values.image.repository -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end }}

{{/* Metadata of an object: list $ (its name) (its namespace, if it has one). */}}
{{- define "netgang.metadata" -}}
{{- $chart := (index . 0).Chart }}{{ $release := (index . 0).Release -}}
metadata:
  name: {{ index . 1 }}
  {{- with index (append . "") 2 }}
  namespace: {{ . }}
  {{- end }}
  labels: {app.kubernetes.io/name: netgang, app.kubernetes.io/instance: {{ quote $release.Name }}, app.kubernetes.io/version: {{ quote $chart.AppVersion }}, app.kubernetes.io/managed-by: {{ $release.Service }}, helm.sh/chart: {{ $chart.Name }}-{{ $chart.Version | replace "+" "_" }}}
{{- end }}

{{/* Metadata of the pods of a Deployment: dict "root" $ "name" (of the app) "checksum" (of what they read once). */}}
{{- define "netgang.podMetadata" -}}
labels: {{- toYaml (merge (dict "app.kubernetes.io/name" .name "app.kubernetes.io/instance" .root.Release.Name) .root.Values.podLabels) | nindent 2 }}
annotations: {{- toYaml (merge (dict "checksum/settings" (print .checksum (include "netgang.certificatesMade" .root) | sha256sum)) .root.Values.podAnnotations) | nindent 2 }}
{{- end }}

{{/* Account, place and security of the pods of a Deployment: dict "root" $ "name" (of the app). */}}
{{- define "netgang.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .name }}
enableServiceLinks: false {{- /* the Service's variables (NETGANG_PORT=tcp://…) would be read as settings */}}
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
affinity:
  {{- if $values.affinity }}
  {{- toYaml $values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution: {{- /* preferred: an update must finish on a small cluster too */}}
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app.kubernetes.io/name: {{ .name }}}}
  {{- end }}
{{ include "netgang.nobody" . }}
{{- end }}

{{/* How every pod of ours runs, and how every container does. */}}
{{- define "netgang.nobody" -}}
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- end }}
{{- define "netgang.unprivileged" -}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{/* A drain takes one replica at a time, and the next one only when the first is Ready elsewhere: list $ (name of the app). */}}
{{- define "netgang.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "netgang.metadata" (list (index . 0) (index . 1) (index . 0).Release.Namespace) }}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app.kubernetes.io/name: {{ index . 1 }}}}
{{- end }}

{{/* A role's binding: list $ (kind of the role) (its name) (an account of the same namespace, or a list of groups). */}}
{{- define "netgang.binding" -}}
{{- $place := (index . 0).Release.Namespace -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ index . 1 }}Binding
{{ include "netgang.metadata" (list (index . 0) (index . 2) (ternary $place "" (eq (index . 1) "Role"))) }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ index . 1 }}, name: {{ index . 2 }}}
{{- if kindIs "string" (index . 3) }}
subjects: [{kind: ServiceAccount, name: {{ index . 3 }}, namespace: {{ $place }}}]
{{- else }}
subjects:
{{- range index . 3 }}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: {{ quote . }}}
{{- end }}
{{- end }}
{{- end }}

{{/* The binding of an admission policy: list $ (its name) (what its refusal does). */}}
{{- define "netgang.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
{{ include "netgang.metadata" (list (index . 0) (index . 1)) }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [{{ index . 2 }}]
{{- end }}

{{/* In CEL: one map is as it was but for some of its keys: list (the map) (as it was) (which `name` may differ). */}}
{{- define "netgang.sameBut" -}}
{{- $new := index . 0 }}{{ $old := index . 1 }}{{ $may := index . 2 -}}
({{ $new }}.all(name, {{ $may }} || (name in {{ $old }} && {{ $old }}[name] == {{ $new }}[name])) && {{ $old }}.all(name, {{ $may }} || name in {{ $new }}))
{{- end }}

{{/* What no schema can say: values that exclude or need each other. */}}
{{- define "netgang.check" -}}
{{- $second := include "netgang.second" . -}}
{{- $settings := include "netgang.settings" . | fromYaml -}}
{{- /* Names are the same in every release: command line, doctor and docs find netgang by them. */ -}}
{{- $there := dig "metadata" "annotations" dict (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "netgang") -}}
{{- if ne .Release.Namespace (dig "meta.helm.sh/release-namespace" .Release.Namespace $there) -}}
{{- fail (printf "this cluster has a netgang: release %s in namespace %s. There can be one: its gate, policies, conditions of nodes and uninstall are the whole cluster's" (index $there "meta.helm.sh/release-name") (index $there "meta.helm.sh/release-namespace")) -}}
{{- end -}}
{{- if and .Values.viewers (not .Values.documentsFrom) -}}
{{- fail "viewers: needs documentsFrom, which opens the port that they ask" -}}
{{- end -}}
{{- if and .Values.reports.enabled (not .Values.probe.enabled) (not (and $second (dig "elastic" "enabled" true $settings) .Values.tls.enabled)) -}}
{{- fail "reports.enabled: needs mode second-scheduler, tls.enabled and elastic jobs; or probe.enabled" -}}
{{- end -}}
{{- if and .Values.scheduler.namespaces (not $second) -}}
{{- fail "scheduler.namespaces: only with mode second-scheduler: elsewhere pods go to the cluster's own scheduler already" -}}
{{- end -}}
{{- if and (dig "probe" "enabled" false .Values.settings) (not .Values.probe.enabled) -}}
{{- fail "settings.probe.enabled: set probe.enabled, which installs the agents and what they need" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (has $settings.leader_election (list "on" true))) -}}
{{- fail "settings.leader_election: must be on with several replicas: each would count the same gang for itself" -}}
{{- end -}}
{{- if and $second .Values.scheduler.replicas (has "default-scheduler" $settings.scheduler_names) -}}
{{- fail "settings.scheduler_names: with default-scheduler set scheduler.replicas to 0: a second kube-scheduler would place the same pods" -}}
{{- end -}}
{{- if and $second (ge (addf $settings.hold_limit_s 22) (float64 $settings.http_timeout_s)) -}}
{{- fail "settings.http_timeout_s: must be above hold_limit_s and 22 s together: a Binding waits 15 s at most for its turn, takes 6 s at most, and 1 s is margin" -}}
{{- end -}}
{{- end }}
