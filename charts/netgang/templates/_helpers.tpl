{{/* A file of manifests/ or scheduler-config/, for the release's namespace: list $ "manifests/base/rbac.yaml". */}}
{{- define "netgang.file" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "files/%s" (index . 1)) -}}
{{- if not $text }}{{ fail (printf "the chart lacks files/%s" (index . 1)) }}{{ end -}}
{{- $text | replace "netgang-system" $root.Release.Namespace -}}
{{- end }}

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

{{/* Labels or annotations of pods: the chart's own, then the values': list {own} {values}. */}}
{{- define "netgang.marks" -}}
{{- toYaml (merge (deepCopy (index . 0)) (index . 1)) -}}
{{- end }}

{{/* Where pods may run: dict "values" (.Values or .Values.scheduler) "name" (of the app). */}}
{{- define "netgang.placement" -}}
{{- $values := .values -}}
{{- with $values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toYaml . | nindent 0 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints: {{ toYaml . | nindent 0 }}
{{- end }}
{{- if $values.affinity }}
affinity: {{ toYaml $values.affinity | nindent 2 }}
{{- else }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution: # preferred: an update must finish on a small cluster too
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* netgang's settings: the mode's, and what the values say on top. */}}
{{- define "netgang.settings" -}}
{{- $file := "manifests/base/settings.yaml" -}}
{{- if eq .Values.mode "native" }}{{ $file = "manifests/overlays/native/settings.yaml" }}{{ end -}}
{{- $own := include "netgang.file" (list . $file) | fromYaml -}}
{{- mergeOverwrite $own (deepCopy .Values.settings) | toYaml -}}
{{- end }}

{{/* The second kube-scheduler's configuration, as the settings and certificates want it. */}}
{{- define "netgang.schedulerConfig" -}}
{{- $file := ternary "manifests/components/tls/second-scheduler.yaml" "scheduler-config/second-scheduler.yaml" (eq "true" (include "netgang.tls" .)) -}}
{{- $config := include "netgang.file" (list . $file) | fromYaml -}}
{{- $settings := include "netgang.settings" . | fromYaml -}}
{{- $profile := first $config.profiles -}}
{{- $profiles := list -}}
{{- range $settings.scheduler_names }}{{ $profiles = append $profiles (set (deepCopy $profile) "schedulerName" .) }}{{ end -}}
{{- $_ := set $config "profiles" $profiles -}}
{{- range $config.extenders -}}
{{- $_ := set . "urlPrefix" (regexReplaceAll ":[0-9]+$" .urlPrefix (printf ":%v" (int $settings.port))) -}}
{{- if .bindVerb }}{{ $_ := set . "httpTimeout" (printf "%vs" $settings.http_timeout_s) }}{{ end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/* The image of netgang. */}}
{{- define "netgang.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end }}

{{/* The image of kube-scheduler: the cluster's own version unless told otherwise. */}}
{{- define "netgang.schedulerImage" -}}
{{- $own := regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version -}}
{{- printf "%s:%s" .Values.scheduler.image (.Values.scheduler.tag | default $own) -}}
{{- end }}

{{/* One or several scheduler names as a condition in CEL on the pod. */}}
{{- define "netgang.isOurs" -}}
{{- $names := (include "netgang.settings" . | fromYaml).scheduler_names -}}
{{- if eq (len $names) 1 -}}
object.spec.schedulerName == '{{ first $names }}'
{{- else -}}
object.spec.schedulerName in ['{{ join "', '" $names }}']
{{- end -}}
{{- end }}

{{/* What no schema can say: values that exclude or need each other. */}}
{{- define "netgang.check" -}}
{{- $second := include "netgang.second" . -}}
{{- /* Not kubeVersion in Chart.yaml: without a cluster `helm template` has a version of its own, and would be refused. */ -}}
{{- if and (lookup "v1" "Namespace" "" "kube-system") (semverCompare "<1.35.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "netgang needs Kubernetes 1.35 or newer; this cluster has %s (helm template: say --kube-version)" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and .Values.probe.enabled (not $second) -}}
{{- fail "probe.enabled: needs mode second-scheduler" -}}
{{- end -}}
{{- if and .Values.reports.enabled (not .Values.probe.enabled) (not (and $second .Values.elastic.enabled .Values.tls.enabled)) -}}
{{- fail "reports.enabled: needs mode second-scheduler, elastic.enabled and tls.enabled; or probe.enabled" -}}
{{- end -}}
{{- if and .Values.namespaces.enabled (not $second) -}}
{{- fail "namespaces.enabled: only with mode second-scheduler: elsewhere pods go to the cluster's own scheduler already" -}}
{{- end -}}
{{- $volumes := list -}}
{{- range .Values.extraVolumes -}}
{{- if has .name $volumes }}{{ fail (printf "extraVolumes: %s is there twice" .name) }}{{ end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- $paths := list -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (has .name $volumes) }}{{ fail (printf "extraVolumeMounts: extraVolumes has no %s" .name) }}{{ end -}}
{{- if has .mountPath $paths }}{{ fail (printf "extraVolumeMounts: two at %s" .mountPath) }}{{ end -}}
{{- $paths = append $paths .mountPath -}}
{{- end -}}
{{- $settings := include "netgang.settings" . | fromYaml -}}
{{- if and (dig "probe" "enabled" false $settings) (not .Values.probe.enabled) -}}
{{- fail "settings.probe.enabled: set probe.enabled, which installs the agents and what they need" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (has $settings.leader_election (list "on" true))) -}}
{{- fail "settings.leader_election: must be on with several replicas: each would count the same gang for itself" -}}
{{- end -}}
{{- if and (ne .Values.mode "native") (ge (addf $settings.hold_limit_s $settings.commit_timeout_s (minf $settings.commit_timeout_s 6) 1) (float64 $settings.http_timeout_s)) -}}
{{- fail "settings.http_timeout_s: must be above hold_limit_s, commit_timeout_s, the slowest Binding (commit_timeout_s again, 6 s at most) and 1 s together" -}}
{{- end -}}
{{- if and $second (gt (int .Values.scheduler.replicas) 0) (has "default-scheduler" $settings.scheduler_names) -}}
{{- fail "settings.scheduler_names: with default-scheduler set scheduler.replicas to 0: a second kube-scheduler would place the same pods" -}}
{{- end -}}
{{- end }}
